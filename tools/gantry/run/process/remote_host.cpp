#include "run/process/remote_host.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <gantry/bridge.hpp>
#include <gantry/runtime.hpp>

#include "errors.hpp"
#include "run/file/environment.hpp"

namespace gantry::run {
namespace {

// What a login shell prints before the agent speaks. More is no greeting.
constexpr unsigned kMostStrangeLines = 100;

Launch launch_agent(const Host& host, int input) {
  Launch launch{
      "host " + host.name, host.launcher, host.launch, stage_environment({}, {}), {}, input};
  if (host.rank != 0) return launch;  // the agent waits there
  launch.arguments.push_back(host.gantry);
  launch.arguments.emplace_back("agent");
  return launch;
}

/// A job must fit, since nobody waits until a launcher has read it.
Result<Pipe> make_input() {
  Result<Pipe> pipe = Pipe::create();
  if (!pipe) return pipe;
  ::fcntl(pipe->write_end.get(), F_SETPIPE_SZ, static_cast<int>(2 * kMostJobBytes));
  ::fcntl(pipe->write_end.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

}  // namespace

RemoteHost::RemoteHost(const Pipeline& pipeline, std::size_t host, Child child, Descriptor input)
    : host_(host),
      name_(pipeline.hosts[host].name),
      address_(pipeline.hosts[host].address),
      program_(pipeline.hosts[host].launch.front()),
      launcher_({}, "host " + pipeline.hosts[host].name, std::move(child)),
      input_(std::move(input)) {}

Result<RemoteHost> RemoteHost::start(const Pipeline& pipeline, std::size_t host, const HostJob& job,
                                     const RaisedFileLimit& file_limit, Guard& guard) {
  const Result<std::string> line = encode_job(job, pipeline, host);
  if (!line) return tl::unexpected(line.error());
  Result<Pipe> input = make_input();
  if (!input) return tl::unexpected(input.error());
  const Launch launch = launch_agent(pipeline.hosts[host], input->read_end.get());
  Result<Child> child = spawn(launch, file_limit, guard);
  if (!child) return tl::unexpected(child.error());
  RemoteHost started(pipeline, host, std::move(*child), std::move(input->write_end));
  const std::string& secret = pipeline.hosts[host].secret;
  const std::string first = secret.empty() ? *line : secret + "\n" + *line;
  if (const auto told = started.tell(first); !told) started.fail(told.error().message, {});
  return started;
}

// A launcher that has ended reads nothing; its end is reported as that.
Result<void> RemoteHost::tell(const std::string& line) {
  const std::string text = line + "\n";
  const ssize_t written = ::write(input_.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size()) || (written < 0 && errno == EPIPE)) return {};
  return tl::unexpected(
      Error{Code::too_large, "the pipe to its launcher does not take its part of the run", {}});
}

Result<void> RemoteHost::let_go(const std::vector<std::string>& bridges) {
  return tell(encode_bridges(bridges));
}

void RemoteHost::fail(std::string_view why, std::string hint) {
  if (!error_)
    error_ = Error{Code::peer_gone, fmt::format("{}: {}", label(), why), std::move(hint)};
}

void RemoteHost::fail_ended() {
  const Exit exit = launcher_.exit();
  const std::string end = exit.signal != 0 ? fmt::format("was ended by signal {}", exit.signal)
                                           : fmt::format("ended with status {}", exit.status);
  const std::string said = launcher_.last_errors().empty() ? "it wrote nothing to standard error"
                                                           : "its last words stand above";
  if (has_greeted_) return fail(fmt::format("its launcher '{}' {}", program_, end), said);
  fail(fmt::format("its launcher '{}' {} before an agent answered", program_, end),
       fmt::format("{}; it must reach the host without a password, and find gantry there "
                   "([hosts.{}] gantry = \"PATH\")",
                   said, name_));
}

StageProcess::Read RemoteHost::read(const Plan& plan, Console& console,
                                    std::vector<HostRecord>& records) {
  std::array<char, 16 << 10> text;  // NOLINT: filled by read
  const ssize_t length = ::read(launcher_.child().output.get(), text.data(), text.size());
  has_more_ = length > 0;
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return StageProcess::Read::nothing;
  if (length <= 0) return StageProcess::Read::ended;
  lines_.add({text.data(), static_cast<std::size_t>(length)},
             [&](std::string_view line) { take(line, plan, console, records); });
  return StageProcess::Read::some;
}

void RemoteHost::take(std::string_view line, const Plan& plan, Console& console,
                      std::vector<HostRecord>& records) {
  if (error_) return;
  if (!has_greeted_) return take_greeting(line, plan, console);
  Result<HostRecord> record = decode_record(line, plan, host_);
  if (!record) return fail(record.error().message, record.error().hint);
  Result<BridgeAddress> address = parse_bridge_address(address_);
  switch (record->kind) {
    case HostRecord::Kind::ready:
      if (address->port.empty()) address->port = fmt::format("{}", record->port);
      bridge_ = address->text();
      return;
    case HostRecord::Kind::error:
      return fail(record->text, record->hint);
    case HostRecord::Kind::note:
      return console.line(fmt::format("gantry: {}: {}", label(), printable(record->text)));
    default:
      records.push_back(std::move(*record));
  }
}

void RemoteHost::take_greeting(std::string_view line, const Plan& plan, Console& console) {
  const Result<HostRecord> record = decode_record(line, plan, host_);
  if (record && record->kind == HostRecord::Kind::hello) return take_version(record->text);
  if (++strange_lines_ > kMostStrangeLines)
    return fail(
        "its launcher starts no agent",
        fmt::format("it must run the command that follows it: {} ... gantry agent", program_));
  launcher_.take(StageProcess::Stream::errors, printable(line), console);
}

void RemoteHost::take_version(const std::string& version) {
  has_greeted_ = true;
  if (version == gantry::version()) return;
  fail(fmt::format("gantry there is {}, here {}", version, gantry::version()),
       "install the same version on both");
}

}  // namespace gantry::run
