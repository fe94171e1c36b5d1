#include <fmt/format.h>

#include "output.hpp"
#include "run/process/supervisor.hpp"

namespace gantry::run {
namespace {

// Agents need the times of a run's end themselves, and the network takes some.
constexpr std::chrono::seconds kHostEnds{10};

}  // namespace

// ---- other hosts -----------------------------------------------------------------------------

/// All bridges listen before any stage starts, so that nobody calls in vain.
Result<void> Supervisor::start_hosts() {
  const Pipeline& pipeline = plan_.pipeline();
  if (options_.reporter != nullptr) return {};
  for (std::size_t host = 0; host < pipeline.hosts.size(); ++host) {
    if (!is_used(pipeline, host)) continue;
    auto started = RemoteHost::start(pipeline, host, {options_.token, options_.connect_within},
                                     file_limit_, guard_);
    if (!started) return tl::unexpected(started.error());
    hosts_.push_back(std::move(*started));
    const Child& child = hosts_.back().launcher().child();
    if (auto fine = watch(child, Event::host_exit, Event::host_output, Event::host_errors,
                          hosts_.size() - 1);
        !fine)
      return fine;
  }
  const auto waits = [](const RemoteHost& one) { return one.bridge().empty(); };
  const Deadline until = Deadline::after(options_.connect_within);
  while (is_going() && std::ranges::any_of(hosts_, waits) && !until.passed())
    pump(std::min<nanoseconds>(until.left(), kPlainTick));
  for (RemoteHost& host : hosts_)
    if (is_going() && waits(host))
      host.fail(fmt::format("its agent has not answered within {}",
                            cli::format_time(options_.connect_within)),
                "--connect-within allows more time");
  return {};
}

Result<void> Supervisor::let_hosts_go() {
  if (hosts_.empty()) return {};
  Placement placement{kThisHost, std::vector<std::string>(plan_.pipeline().hosts.size())};
  for (const RemoteHost& host : hosts_) placement.bridges[host.host()] = host.bridge();
  for (RemoteHost& host : hosts_)
    if (auto told = host.let_go(placement.bridges); !told) return told;
  plan_.place(std::move(placement));
  return {};
}

void Supervisor::hear(std::size_t index) {
  std::vector<HostRecord> records;
  if (hosts_[index].read(plan_, console_, records) == StageProcess::Read::ended)
    streams_.remove(hosts_[index].launcher().child().output.get());
  for (const HostRecord& record : records) obey(record);
}

/// The record is about a stage of that agent's host.
void Supervisor::obey(const HostRecord& record) {
  if (record.kind == HostRecord::Kind::counters)
    return plan_.take_counters(record.link, record.flag, record.counters);
  const auto found = std::ranges::find(processes_, record.process, &StageProcess::id);
  if (found == processes_.end()) return;  // it was not started yet
  using Stream = StageProcess::Stream;
  switch (record.kind) {
    case HostRecord::Kind::out:
    case HostRecord::Kind::err:
      return found->take(record.kind == HostRecord::Kind::err ? Stream::errors : Stream::output,
                         record.text, console_);
    case HostRecord::Kind::failed:
      return add_failure({static_cast<std::size_t>(found - processes_.begin()), record.flag,
                          record.text, record.hint});
    case HostRecord::Kind::ended:
      if (record.flag) found->note_ended_by_itself();
      return found->note_end_elsewhere(record.exit, record.usage);
    default:
      return;
  }
}

void Supervisor::note_host_end(std::size_t index) {
  RemoteHost& host = hosts_[index];
  StageProcess& launcher = host.launcher();
  if (!launcher.note_end()) return;
  events_.remove(launcher.child().exit.get());
  constexpr int kReads = 64;  // as StageProcess::forward_all()
  for (int i = 0; i < kReads && host.has_more(); ++i) hear(index);
  for (int i = 0; i < kReads && launcher.forward(StageProcess::Stream::errors, console_) ==
                                    StageProcess::Read::some;
       ++i) {
  }
  if (!stopping_) host.fail_ended();
  for (StageProcess& process : processes_)
    if (plan_.pipeline().stages[process.id().stage].host == host.host() && process.running())
      process.note_end_elsewhere({}, {});
}

const std::optional<Error>* Supervisor::host_error() const {
  for (const RemoteHost& host : hosts_)
    if (host.error()) return &host.error();
  return nullptr;
}

/// Their inputs have ended.
void Supervisor::end_hosts() {
  const Deadline until = Deadline::after(kHostEnds);
  while (!until.passed() && !hosts_ended()) pump(kStopPoll);
  for (RemoteHost& host : hosts_) {
    if (host.is_running())
      console_.line(
          fmt::format("gantry: {}: its agent has not answered for {} s; its launcher is "
                      "ended now, and the agent ends when it notices",
                      host.label(), kHostEnds.count()));
    const Usage ignored = host.launcher().reap(guard_, Deadline::after(kKilled));
    static_cast<void>(ignored);
  }
}

bool Supervisor::hosts_ended() const {
  return std::ranges::none_of(hosts_, &RemoteHost::is_running);
}

}  // namespace gantry::run
