#pragma once  // tools/gantry/run/process/watcher.hpp: waits for many descriptors and keeps the
              // order of events.

#include <gantry/types.hpp>
#include <vector>

#include "run/process/descriptor.hpp"

namespace gantry::run {

/// An epoll set. What becomes readable first is reported first, which shows what died first.
class Watcher {
 public:
  using Tag = std::uint64_t;

  [[nodiscard]] static Result<Watcher> create();

  [[nodiscard]] Result<void> add(int descriptor, Tag tag) noexcept;
  void remove(int descriptor) noexcept;
  /// Tags of what is readable or hung up; empty after `wait`.
  [[nodiscard]] std::vector<Tag> wait(std::chrono::nanoseconds wait);

  /// Readable itself when one of its descriptors is, so watchers can be nested.
  [[nodiscard]] int descriptor() const noexcept { return set_.get(); }

 private:
  explicit Watcher(Descriptor set) noexcept : set_(std::move(set)) {}
  Descriptor set_;
};

}  // namespace gantry::run
