#include "run_once.hpp"

#include <signal.h>

#include <filesystem>
#include <optional>

#include "errors.hpp"
#include "run/process/images.hpp"
#include "run/process/leftovers.hpp"
#include "run/process/run_directory.hpp"
#include "trace/session.hpp"

namespace gantry::run {

Result<RunReport> run_once(const Pipeline& pipeline, Transport transport, const std::string& base,
                           SuperviseOptions options, const cli::Interrupt& interrupt,
                           const TraceWish& trace) {
  const Adoption adoption;
  const RaisedFileLimit file_limit;
  Result<RunDirectory> directory = RunDirectory::create(base, pipeline.name, interrupt);
  if (!directory) return tl::unexpected(directory.error());
  Result<Guard> guard = Guard::start(directory->path());
  if (!guard) return tl::unexpected(guard.error());
  if (has_hosts(pipeline)) {
    auto token = make_token();
    if (!token) return tl::unexpected(token.error());
    options.token = std::move(*token);
    if (auto fine = write_token(directory->path(), options.token); !fine)
      return tl::unexpected(fine.error());
  }
  Result<Plan> plan = Plan::create(pipeline, transport, directory->path());
  if (!plan) return tl::unexpected(plan.error());
  const auto images = RunImages::start(pipeline, directory->path());
  if (!images) return tl::unexpected(images.error());
  options.stop_descriptor = (*images)->failed_descriptor();
  std::optional<cli::TraceSession> session;
  if (!trace.file.empty()) {
    auto started = cli::TraceSession::start({directory->path()}, trace.file,
                                            {static_cast<unsigned>(trace.events)},
                                            "gantry run --trace-events");
    if (!started) return tl::unexpected(started.error());
    session.emplace(std::move(*started));
  }
  Result<Finished> finished = supervise(*plan, options, *guard, file_limit, interrupt);
  const Result<void> kept = (*images)->stop();
  if (finished && !finished->end && !kept) finished->end = kept;
  const Result<void> traced = session ? session->write() : Result<void>();
  if (!finished) return tl::unexpected(finished.error());
  if (finished->end && !traced) finished->end = traced;
  return make_report(*plan, *finished);
}

void settle_signals() {
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
}

Result<std::string> base_directory() {
  Result<std::string> directory = channel_directory();
  if (!directory) return directory;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(*directory, error);
  if (error) return tl::unexpected(cli::system_error(*directory, error.value()));
  return absolute.string();
}

}  // namespace gantry::run
