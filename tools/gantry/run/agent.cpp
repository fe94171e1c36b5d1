// gantry agent: runs one host's stages of a pipeline, for the `gantry run` at its standard input.
#include "agent.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <gantry/bridge.hpp>
#include <gantry/runtime.hpp>
#include <thread>

#include "commands.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "run/process/leftovers.hpp"
#include "run/process/programs.hpp"
#include "run/process/rank_hosts.hpp"
#include "run/process/run_directory.hpp"
#include "run_once.hpp"

namespace gantry::run {
namespace {

/// The bridge of this host's channels. Move-only by its pointer.
class AgentBridge {
 public:
  static Result<std::unique_ptr<AgentBridge>> start(const Host& host, const std::string& token,
                                                    const std::string& directory);
  AgentBridge(Runtime runtime, Pipe stop, Bridge bridge)
      : runtime_(std::move(runtime)),
        stop_(std::move(stop)),
        bridge_(std::move(bridge)),
        thread_([this] { static_cast<void>(bridge_.serve()); }) {}
  ~AgentBridge() {
    stop_.write_end.reset();
    thread_.join();
  }
  AgentBridge(const AgentBridge&) = delete;
  AgentBridge& operator=(const AgentBridge&) = delete;

  [[nodiscard]] unsigned port() const {
    const std::string address = bridge_.address();
    const auto port = cli::parse_number(address.substr(address.rfind(':') + 1), 0, 65535);
    return port ? static_cast<unsigned>(*port) : 0;
  }

 private:
  Runtime runtime_;
  Pipe stop_;  // its end stops the bridge
  Bridge bridge_;
  std::thread thread_;
};

Result<std::unique_ptr<AgentBridge>> AgentBridge::start(const Host& host, const std::string& token,
                                                        const std::string& directory) {
  Result<BridgeAddress> address = parse_bridge_address(host.address);
  if (!address) return tl::unexpected(address.error());
  // Runs beside each other share a host, so each takes a port of its own.
  if (address->port.empty()) address->port = "0";
  Result<Pipe> stop = Pipe::create();
  if (!stop) return tl::unexpected(stop.error());
  auto runtime = Runtime::create();
  if (!runtime) return tl::unexpected(runtime.error());
  BridgeOptions options;
  options.listen = address->text();
  options.token = token;
  options.directory = directory;
  options.sessions = 4096;  // as many as `gantry bridge` may have
  options.interrupt_descriptor = stop->read_end.get();
  auto bridge = Bridge::open(options, runtime->default_engine());
  if (!bridge) return tl::unexpected(bridge.error());
  return std::make_unique<AgentBridge>(std::move(*runtime), std::move(*stop), std::move(*bridge));
}

/// A line of standard input. Errors: `interrupted` when `gantry run` is gone, or a signal came.
Result<std::string> read_order(const cli::Interrupt& interrupt) {
  std::string line;
  std::array<char, 16 << 10> text;  // NOLINT: filled by read
  while (!line.ends_with('\n')) {
    if (auto ready = cli::wait_ready(STDIN_FILENO, POLLIN, interrupt); !ready)
      return tl::unexpected(ready.error());
    const ssize_t length = ::read(STDIN_FILENO, text.data(), text.size());
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0 || line.size() > kMostJobBytes)
      return tl::unexpected(Error{Code::interrupted, "standard input has ended", {}});
    line.append(text.data(), static_cast<std::size_t>(length));
  }
  return line;
}

Result<void> enter_directory(const Host& host) {
  if (host.directory.empty()) return {};
  std::error_code error;
  std::filesystem::current_path(host.directory, error);
  if (!error) return {};
  return tl::unexpected(cli::system_error("directory " + host.directory, error.value(),
                                          fmt::format("[hosts.{}] directory names it", host.name)));
}

Result<AgentJob> take_job(const cli::Interrupt& interrupt) {
  const Result<std::string> line = read_order(interrupt);
  if (!line) return tl::unexpected(line.error());
  Result<AgentJob> job = decode_job(*line);
  if (!job) return job;
  if (auto fine = enter_directory(job->pipeline.hosts[job->host]); !fine)
    return tl::unexpected(fine.error());
  Mistakes missing;
  locate_programs(job->pipeline, job->host, ".", missing);
  if (auto fine = missing.first(); !fine) return tl::unexpected(fine.error());
  return job;
}

/// The run of this host's stages, from the other bridges' addresses on.
Result<void> run_stages(const AgentJob& job, const RunDirectory& directory, Guard& guard,
                        const RaisedFileLimit& file_limit, const cli::Interrupt& interrupt,
                        HostReporter& reporter) {
  const Result<std::string> line = read_order(interrupt);
  if (!line) return tl::unexpected(line.error());
  auto bridges = decode_bridges(*line, job.pipeline);
  if (!bridges) return tl::unexpected(bridges.error());
  Result<Plan> plan = Plan::create(job.pipeline, Transport::gantry, directory.path());
  if (!plan) return tl::unexpected(plan.error());
  plan->place({job.host, std::move(*bridges)});
  SuperviseOptions options;
  options.connect_within = job.job.connect_within;
  options.reporter = &reporter;
  options.stop_descriptor = STDIN_FILENO;
  const auto finished = supervise(*plan, options, guard, file_limit, interrupt);
  Result<void> end = finished ? finished->end : tl::unexpected(finished.error());
  if (!end && !reporter.has_told_failure()) return end;
  reporter.flush();
  // Readers on other hosts may still fetch what was sent here.
  return cli::wait_ready(STDIN_FILENO, POLLIN, interrupt);
}

Result<void> serve_run(HostReporter& reporter, const cli::Interrupt& interrupt) {
  const Result<AgentJob> job = take_job(interrupt);
  if (!job) return tl::unexpected(job.error());
  const Result<std::string> base = base_directory();
  if (!base) return tl::unexpected(base.error());
  sweep_run_directories(*base, interrupt);
  const Adoption adoption;
  const RaisedFileLimit file_limit;
  Result<RunDirectory> directory = RunDirectory::create(*base, job->pipeline.name, interrupt);
  if (!directory) return tl::unexpected(directory.error());
  Result<Guard> guard = Guard::start(directory->path());  // before the bridge's threads
  if (!guard) return tl::unexpected(guard.error());
  if (auto fine = write_token(directory->path(), job->job.token); !fine) return fine;
  const auto bridge =
      AgentBridge::start(job->pipeline.hosts[job->host], job->job.token, directory->path());
  if (!bridge) return tl::unexpected(bridge.error());
  reporter.ready((*bridge)->port());
  return run_stages(*job, *directory, *guard, file_limit, interrupt, reporter);
}

}  // namespace

Result<void> run_agent() {
  if (::isatty(STDIN_FILENO) == 1)
    return tl::unexpected(Error{Code::invalid_argument, "agent: is started by gantry run alone",
                                "write host = \"NAME\" at a stage of a pipeline file"});
  settle_signals();
  if (auto fine = keep_standard_streams(); !fine) return fine;
  HostReporter reporter;
  reporter.hello();
  const Result<cli::Interrupt> interrupt = cli::Interrupt::create();
  if (!interrupt) return tl::unexpected(interrupt.error());
  const Result<void> served = serve_run(reporter, *interrupt);
  if (interrupt->raised())
    reporter.error({Code::interrupted, "its agent was told to end by a signal", {}});
  else if (!served && served.error().code != Code::interrupted)
    reporter.error(cli::in_words_of_the_command_line(served.error()));
  return {};
}

}  // namespace gantry::run

namespace gantry::cli {

void add_agent(const Command& command, int& exit_code) {
  auto rank = std::make_shared<std::string>();
  command->add_option("--reach", *rank, "Speaks to the one that waits there as a rank of mpirun")
      ->type_name("ADDRESS:PORT");
  command->callback([rank, &exit_code] {
    const auto done = rank->empty() ? run::run_agent() : run::reach_rank(*rank);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
