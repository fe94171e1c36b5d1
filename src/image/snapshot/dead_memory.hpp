#pragma once  // image/snapshot/dead_memory.hpp: why a program ends that touches what is not there.

#include <gantry/memory.hpp>

namespace gantry::snapshot {

/// Memory whose loading ended with an error. Whoever touches a page of it that is not there ends by
/// a signal; before that one line on standard error says which page and why. At most kMost of a
/// process are known at a time; others end without a word.
class DeadMemory {
 public:
  static constexpr std::size_t kMost = 16;

  DeadMemory() = default;
  DeadMemory(const DeadMemory&) = delete;
  DeadMemory& operator=(const DeadMemory&) = delete;
  ~DeadMemory();

  /// `signal` is what touching raises. Once.
  void tell(ByteSpan memory, int signal, const Error& why) noexcept;

 private:
  std::size_t place_ = kMost;
};

}  // namespace gantry::snapshot
