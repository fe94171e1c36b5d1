// Tells LeakSanitizer of libfabric 1.17, which forgets 376 bytes of a connection whose endpoint is
// closed before it stands.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {  // NOLINT: the sanitizer's name
  return "leak:libfabric\n";
}
