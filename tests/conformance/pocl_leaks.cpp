// What PoCL 3.1 loses of its own when it compiles a kernel for one more size of group is not ours:
// LeakSanitizer asks here what to pass over.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {  // NOLINT: the sanitizer's name
  return "leak:libpocl\nleak:libLLVM\n";
}
