#pragma once  // bench/support/system/interrupt.hpp: Ctrl-C as something one can wait for.

#include "posix.hpp"

namespace gantry::bench {

/// While it lives, SIGINT, SIGTERM and SIGHUP do not end this process but make descriptor()
/// readable. One at a time, made before any thread.
class Interrupt {
 public:
  [[nodiscard]] static Result<Interrupt> create();

  [[nodiscard]] int descriptor() const noexcept { return signals_.get(); }

 private:
  explicit Interrupt(Descriptor signals) noexcept : signals_(std::move(signals)) {}
  Descriptor signals_;
};

/// Errors: `interrupted` once that descriptor is readable.
[[nodiscard]] Result<void> check_interrupt(int descriptor);

}  // namespace gantry::bench
