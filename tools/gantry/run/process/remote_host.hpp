#pragma once  // tools/gantry/run/process/remote_host.hpp: another host of a run, by its agent.

#include <optional>

#include "run/process/host_job.hpp"
#include "run/process/host_record.hpp"

namespace gantry::run {

/// The launcher of a host, and what the agent behind it says. The agent ends all that it started
/// when its standard input ends, so closing that is enough. Move-only.
class RemoteHost {
 public:
  /// Starts the launcher and tells the agent its job. Errors name the host.
  [[nodiscard]] static Result<RemoteHost> start(const Pipeline& pipeline, std::size_t host,
                                                const HostJob& job,
                                                const RaisedFileLimit& file_limit, Guard& guard);

  [[nodiscard]] StageProcess& launcher() noexcept { return launcher_; }
  [[nodiscard]] std::size_t host() const noexcept { return host_; }
  [[nodiscard]] std::string label() const { return launcher_.label(); }

  /// What its agent says of its stages now, up to some KiB; the rest is kept here. False: there
  /// will be no more.
  StageProcess::Read read(const Plan& plan, Console& console, std::vector<HostRecord>& records);
  [[nodiscard]] bool has_more() const noexcept { return has_more_; }
  [[nodiscard]] bool is_running() const noexcept { return launcher_.running(); }
  /// Where its bridge is reached; empty: it does not listen yet.
  [[nodiscard]] const std::string& bridge() const noexcept { return bridge_; }
  /// Lets the agent start its stages.
  [[nodiscard]] Result<void> let_go(const std::vector<std::string>& bridges);
  void stop() noexcept { input_.reset(); }  ///< Ends all that the agent started.

  /// Why the run cannot go on with it.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }
  void fail(std::string_view why, std::string hint);
  /// For a launcher that ended though nobody told it to.
  void fail_ended();

 private:
  RemoteHost(const Pipeline& pipeline, std::size_t host, Child child, Descriptor input);
  void take(std::string_view line, const Plan& plan, Console& console,
            std::vector<HostRecord>& records);
  void take_greeting(std::string_view line, const Plan& plan, Console& console);
  void take_version(const std::string& version);
  [[nodiscard]] Result<void> tell(const std::string& line);

  std::size_t host_;
  std::string name_;
  std::string address_;
  std::string program_;  // of the launcher
  StageProcess launcher_;
  Descriptor input_;
  LineCutter lines_{kLongestRecord};
  unsigned strange_lines_ = 0;
  bool has_more_ = true;  // until its output was read to what it holds now, or to its end
  bool has_greeted_ = false;
  std::string bridge_;
  std::optional<Error> error_;
};

}  // namespace gantry::run
