#pragma once  // tools/gantry/run/process/host_reporter.hpp: an agent's words to `gantry run`.

#include "run/process/host_record.hpp"

namespace gantry::run {

/// Says on standard output, without blocking, what `gantry run` would show itself.
class HostReporter final : public Console {
 public:
  HostReporter() : Console(STDOUT_FILENO) {}

  void line(std::string_view text) override;
  void stage_line(ProcessId process, std::string_view label, bool errors,
                  std::string_view text) override;
  void hello();
  void ready(unsigned port);
  void error(const Error& error);
  void failed(ProcessId process, const Failure& failure);
  void ended(const StageProcess& process, const Usage& usage);
  void counters(const Plan& plan);  ///< Of all ends here.

  [[nodiscard]] bool has_told_failure() const noexcept { return has_told_failure_; }

 private:
  void say(const HostRecord& record);
  bool has_told_failure_ = false;
};

}  // namespace gantry::run
