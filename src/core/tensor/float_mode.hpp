#pragma once  // tensor/float_mode.hpp: the floating-point mode that conversions rely on.

namespace gantry::shape {

/// While it lives, numbers below the normal ones are kept and rounding is to nearest even; then the
/// thread's mode is as before, and what was streamed is ordered before later stores.
class FloatMode {
 public:
  FloatMode() noexcept;
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  unsigned before_;
};

}  // namespace gantry::shape
