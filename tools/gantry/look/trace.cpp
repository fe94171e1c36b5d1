// gantry trace: records what ends of channels, ranks, links and queues do for a while.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <gantry/channel.hpp>
#include <gantry/runtime.hpp>

#include "commands.hpp"
#include "directory.hpp"
#include "errors.hpp"
#include "file_limit.hpp"
#include "interrupt.hpp"
#include "options.hpp"
#include "output.hpp"
#include "tools/command_line/progress.hpp"
#include "trace/session.hpp"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;

struct TraceOptions {
  std::string which;
  std::string directory;
  std::string file = "trace.json";
  std::chrono::nanoseconds duration = std::chrono::seconds(10);
  std::uint64_t events = trace::RecordingOptions().events;
};

struct Wanted {
  std::vector<std::string> directories;
  std::string channel;  // empty: all
};

Error not_there(const std::string& path) {
  return {Code::not_found, path + ": there is no such runtime directory",
          "start a program with a channel first, or name its directory (--directory)"};
}

/// Processes of other users do not answer a recorder, which would see nothing.
Result<void> check_owner(const std::string& directory) {
  struct stat facts{};
  if (::stat(directory.c_str(), &facts) != 0 || facts.st_uid == ::geteuid()) return {};
  return tl::unexpected(
      Error{Code::permission_denied,
            directory + ": it is another user's, and only processes of one's own are recorded",
            "run gantry trace as that user"});
}

/// With the folder of the run in place of a pipeline's name, which `gantry ls` shows. A channel of
/// that name comes first.
std::string in_its_folder(const std::string& which, const std::string& directory) {
  const auto channels = list_channels(directory);
  if (!channels) return which;
  const auto is_channel = [&](const ChannelStatus& one) { return names_channel(which, one.name); };
  if (std::ranges::any_of(*channels, is_channel)) return which;
  const std::string pipeline = which.substr(0, which.find('/'));
  const auto run = std::ranges::find(*channels, pipeline, &ChannelStatus::pipeline);
  if (pipeline.empty() || run == channels->end()) return which;
  return run->name.substr(0, run->name.find('/')) + which.substr(pipeline.size());
}

/// PIPELINE or PIPELINE/CHANNEL as `gantry ls` shows them, the same with the folder of the run, or
/// CHANNEL.
Result<Wanted> look_for(const TraceOptions& options) {
  const std::string base = channel_directory_path(options.directory);
  std::error_code error;
  if (!fs::is_directory(base, error)) return tl::unexpected(not_there(base));
  if (const auto fine = can_look_into(options.directory); !fine)
    return tl::unexpected(fine.error());
  if (const auto own = check_owner(base); !own) return tl::unexpected(own.error());
  const std::string which = in_its_folder(options.which, base);
  if (which.starts_with(kRunPrefix)) {
    const auto slash = which.find('/');
    const std::string run = base + "/" + which.substr(0, slash);
    if (!fs::is_directory(run, error)) return tl::unexpected(not_there(run));
    return Wanted{{run}, slash == std::string::npos ? "" : which.substr(slash + 1)};
  }
  return Wanted{{base, fmt::format("{}/{}*", base, kRunPrefix)}, which};
}

/// Whether somebody has the channel now. What does not move has no track.
bool is_there(const Wanted& wanted) {
  return std::ranges::any_of(wanted.directories, [&](const std::string& directory) {
    const auto channels = list_channels(directory);
    return !channels || std::ranges::any_of(*channels, [&](const ChannelStatus& channel) {
      return names_channel(wanted.channel, channel.name);
    });
  });
}

Result<void> wait_for(std::chrono::nanoseconds duration, const Interrupt& interrupt,
                      const TraceSession& session) {
  const Deadline end = Deadline::after(duration);
  constexpr std::chrono::milliseconds kTick{200};
  Progress progress("gantry trace");
  Result<void> waited = tl::unexpected(Error{Code::timed_out, {}, {}});
  while (!end.passed() && !session.has_failed() && !waited &&
         waited.error().code == Code::timed_out) {
    progress.show("recording; Ctrl-C ends it",
                  1 - std::chrono::duration<double>(end.left()) / duration);
    waited = wait_ready(-1, 0, interrupt,
                        Deadline::after(std::min<std::chrono::nanoseconds>(end.left(), kTick)));
  }
  const bool is_over = waited || waited.error().code == Code::timed_out ||
                       waited.error().code == Code::interrupted;  // what there is, is wanted
  return is_over ? Result<void>() : waited;
}

Result<void> record(const TraceOptions& options) {
  auto interrupt = Interrupt::create();  // before any thread
  if (!interrupt) return tl::unexpected(interrupt.error());
  const run::RaisedFileLimit limit;  // each end has a ring, which stays open
  const auto wanted = look_for(options);
  if (!wanted) return tl::unexpected(wanted.error());
  auto session =
      TraceSession::start(wanted->directories, options.file,
                          {static_cast<unsigned>(options.events)}, "gantry trace --events");
  if (!session) return tl::unexpected(session.error());
  const bool is_known = wanted->channel.empty() || is_there(*wanted);
  if (auto waited = wait_for(options.duration, *interrupt, *session); !waited) return waited;
  return session->write(wanted->channel, is_known || is_there(*wanted));
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  auto time = parse_time(text);
  if (time && *time <= std::chrono::nanoseconds(0))
    return tl::unexpected(Error{Code::invalid_argument,
                                fmt::format("'{}': a trace takes longer than 0 s", text),
                                "as in 10, 250ms or 5min"});
  return time;
}

}  // namespace

void add_trace(const Command& command, int& exit_code) {
  auto options = std::make_shared<TraceOptions>();
  command->add_option("which", options->which, "RUN, RUN/CHANNEL or CHANNEL (default: all)")
      ->type_name(kChannelType);
  command->add_option("-o,--output", options->file, "The file to write (trace.json)")
      ->type_name("FILE");
  add_parsed(*command, "--seconds", options->duration, &parse_duration, "TIME",
             "How long (default 10); Ctrl-C ends it early");
  add_parsed(*command, "--events", options->events, &parse_trace_events, "NUMBER",
             "Room of each end, 64 bytes each, which is read 50 times a second (8192)");
  command
      ->add_option("--directory", options->directory,
                   "Where to look (default $GANTRY_DIR, or the user's runtime directory)")
      ->type_name("DIRECTORY");
  command->footer(
      "Open the file in https://ui.perfetto.dev. Sends, copies, waits and arrivals\n"
      "of all processes of this user and host, on one clock; arrows follow each\n"
      "message; also the steps of ranks, transfers of links and work of device queues.\n"
      "Processes that run notice within 0.6 s. gantry run --trace FILE records a\n"
      "whole run.\n"
      "Example: gantry trace images --seconds 5 -o images.json");
  command->callback([options, &exit_code] {
    const auto done = record(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
