#pragma once  // bench/support/system/net_space.hpp: network namespaces, as hosts of a benchmark.

#include <string>

#include "posix.hpp"

namespace gantry::bench {

/// That of the calling thread; closed, with errno, if it cannot be had.
[[nodiscard]] Descriptor present_space();

/// The calling thread is in another namespace for as long as this lives.
class Visit {
 public:
  /// `home`: closed: there are none, and nothing happens.
  [[nodiscard]] static Result<Visit> begin(const Descriptor& home, const Descriptor& there);
  Visit(Visit&& other) noexcept : home_(std::exchange(other.home_, -1)) {}
  Visit& operator=(Visit&&) = delete;
  ~Visit();

 private:
  explicit Visit(int home) noexcept : home_(home) {}
  int home_;
};

/// A new namespace; the calling thread is in `home` again. Errors: `permission_denied`, `system`.
[[nodiscard]] Result<Descriptor> make_space(const Descriptor& home);
/// By which other programs find it while this process lives.
[[nodiscard]] std::string path_of_space(const Descriptor& space);

}  // namespace gantry::bench
