#pragma once  // bench/ipc/beside.hpp: another pair of processes that moves 16 MiB after 16 MiB on
              // the CPUs of those that are measured.

#include <atomic>

#include "../support/process/child.hpp"
#include "../support/system/cpus.hpp"
#include "../support/system/mapping.hpp"
#include "../support/trips/subject.hpp"

namespace gantry::bench {

/// Runs until it is dropped.
class StreamBeside {
 public:
  static constexpr Bytes kMessage = Bytes{16} << 20;

  /// One of its ends on each CPU of `cpus`. Returns when messages flow. Only while this process has
  /// one thread.
  [[nodiscard]] static Result<std::unique_ptr<StreamBeside>> start(Beside what,
                                                                   const std::string& directory,
                                                                   const CpuPair& cpus);

  /// Messages that were read whole, since the start.
  [[nodiscard]] std::uint64_t messages() const noexcept;

 private:
  explicit StreamBeside(Mapping memory) noexcept : memory_(std::move(memory)) {}

  Mapping memory_;
  std::vector<Child> ends_;
};

}  // namespace gantry::bench
