#pragma once  // base/worker_thread.hpp: the library's own threads.

#include <system_error>
#include <thread>

#include "base/result.hpp"

namespace gantry {

/// `what`: for the error: "starting a thread for files: ...". Errors: `system`, `out_of_memory`.
template <class Run>
[[nodiscard]] Result<std::thread> start_thread(std::string_view what, Run run) noexcept {
  return guarded([&]() -> Result<std::thread> {
    try {
      return std::thread(std::move(run));
    } catch (const std::system_error& error) {
      return fail(Code::system, fmt::format("starting {}: {}", what, error.what()),
                  "raise the limit of processes (ulimit -u)");
    }
  });
}

}  // namespace gantry
