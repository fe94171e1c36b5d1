// Which of the compiled kinds of vectors this CPU has: the run-time part of Highway, whose library
// has it together with a measurement of the clock that takes 6 ms of each process that loads it.
// Weak: a program that is linked to that library, too, has its functions.
#include <hwy/targets.h>

#include <atomic>

namespace hwy {
namespace {

std::atomic<std::int64_t> mocked{0};  // a test's

std::int64_t find_targets() noexcept {
#if HWY_ARCH_X86
  // As targets.cc of Highway 1.0 groups them. The compiler's run-time asks the system, too, whether
  // it keeps those registers.
  __builtin_cpu_init();
  std::int64_t targets = HWY_STATIC_TARGET | HWY_EMU128 | HWY_SCALAR;
  if (!__builtin_cpu_supports("ssse3")) return targets;
  targets |= HWY_SSSE3;
  if (!__builtin_cpu_supports("sse4.1") || !__builtin_cpu_supports("sse4.2") ||
      !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("aes"))
    return targets;
  targets |= HWY_SSE4;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") ||
      !__builtin_cpu_supports("lzcnt") || !__builtin_cpu_supports("f16c"))
    return targets;
  targets |= HWY_AVX2;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512cd"))
    return targets;
  targets |= HWY_AVX3;
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("vpclmulqdq") &&
      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
      __builtin_cpu_supports("vaes") && __builtin_cpu_supports("avx512vpopcntdq") &&
      __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("gfni"))
    targets |= HWY_AVX3_DL;
  return targets;
#else
  return HWY_STATIC_TARGET | HWY_EMU128 | HWY_SCALAR;
#endif
}

}  // namespace

[[gnu::weak]] std::int64_t SupportedTargets() {
  static const std::int64_t found = find_targets();
  const std::int64_t mock = mocked.load(std::memory_order_relaxed);  // a test's own thread set it
  return mock != 0 ? mock : found;
}

[[gnu::weak]] void SetSupportedTargetsForTest(std::int64_t targets) {
  mocked.store(targets, std::memory_order_relaxed);
  GetChosenTarget().DeInit();
}

[[gnu::weak]] ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
