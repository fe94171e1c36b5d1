#include "core/tensor/float_mode.hpp"

#include <hwy/cache_control.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace gantry::shape {
namespace {

#if defined(__x86_64__)
constexpr unsigned kDefault = 0x1f80;  // exceptions masked, to nearest, neither FTZ nor DAZ
unsigned mode() noexcept {
  return _mm_getcsr();
}
void set_mode(unsigned mode) noexcept {
  _mm_setcsr(mode);
}
#elif defined(__aarch64__)
constexpr unsigned kDefault = 0;  // FPCR: to nearest, no flushing, no default NaN
unsigned mode() noexcept {
  unsigned long mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return static_cast<unsigned>(mode);
}
void set_mode(unsigned mode) noexcept {
  asm volatile("msr fpcr, %0" ::"r"(static_cast<unsigned long>(mode)) : "memory");
}
#else
#error "How does a thread set its floating-point mode here?"
#endif

}  // namespace

FloatMode::FloatMode() noexcept : before_(mode()) {
  if (before_ != kDefault) set_mode(kDefault);
}

FloatMode::~FloatMode() {
  hwy::FlushStream();
  if (before_ != kDefault) set_mode(before_);
}

}  // namespace gantry::shape
