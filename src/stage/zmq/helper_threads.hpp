#pragma once  // stage/zmq/helper_threads.hpp: CPU time of threads that a library started for
              // itself.

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace gantry {

/// Finds the threads of this process whose name begins with `name` and that appear between
/// construction and started(). Their CPU time is charged like our own.
class HelperThreads {
 public:
  explicit HelperThreads(std::string_view name);
  void started();

  /// CPU time that they took since the last call.
  [[nodiscard]] std::uint64_t take_cpu_ns();

 private:
  [[nodiscard]] std::vector<pid_t> present() const;

  std::string_view name_;
  std::vector<pid_t> threads_;  // until started(): those that existed before
  std::uint64_t taken_ns_ = 0;
};

}  // namespace gantry
