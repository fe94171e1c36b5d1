#pragma once  // tools/gantry/interrupt.hpp: Ctrl-C as a descriptor that waiting calls watch.

#include <gantry/types.hpp>

namespace gantry::cli {

/// While it lives, SIGINT, SIGTERM and SIGHUP (unless ignored at the start) are not delivered.
/// Instead they make descriptor() readable, and keep it so: every call that waits on it returns,
/// and the program cleans up in the ordinary way. Make it before any thread starts (threads inherit
/// the mask). Move-only.
class Interrupt {
 public:
  [[nodiscard]] static Result<Interrupt> create();
  Interrupt(Interrupt&& other) noexcept;
  Interrupt& operator=(Interrupt&& other) noexcept;
  ~Interrupt();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] bool raised() const noexcept;  ///< True if a signal has come. Takes nothing away.

  /// In a forked child before exec: the signals act as usual again. Async-signal-safe.
  static void restore_signals() noexcept;

 private:
  explicit Interrupt(int descriptor) noexcept : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

/// Waits until `descriptor` has `events` (POLLIN, POLLOUT, hang-ups included). Errors:
/// `interrupted` as soon as `interrupt` is raised, `timed_out`, `system`.
[[nodiscard]] Result<void> wait_ready(int descriptor, short events, const Interrupt& interrupt,
                                      Deadline deadline = Deadline::never());

}  // namespace gantry::cli
