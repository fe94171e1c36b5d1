#pragma once  // base/bell_tower.hpp: one descriptor for who sleeps on many bells, and is woken by
              // threads of its own process.

#include "base/bell.hpp"

namespace gantry {

/// An epoll of bells and a private event. Threads: hang() and drain() under a lock of the owner's,
/// which is also to be held where a bell that hangs here is destroyed; the rest from any.
class BellTower {
 public:
  [[nodiscard]] static Result<BellTower> make();

  /// Readable while any of it rings.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }
  /// By a thread of this process.
  void ring() const noexcept;
  /// Until it is reset, which must be before this is destroyed.
  [[nodiscard]] Result<void> hang(Bell& bell) const;
  /// Takes in what was rung. A bell whose other end is gone is heard no more.
  void drain() const noexcept;

 private:
  Fd epoll_;
  Fd event_;
};

}  // namespace gantry
