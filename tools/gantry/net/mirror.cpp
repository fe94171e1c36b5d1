// gantry mirror: a channel of another host under its name here, for all who read it.
#include <gantry/bridge.hpp>
#include <gantry/runtime.hpp>

#include "channel_options.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "interrupt.hpp"
#include "options.hpp"

namespace gantry::cli {
namespace {

struct MirrorCommand {
  MirrorOptions options;
  std::optional<SlowConsumer> when_slow;
  std::optional<Access> access;
  std::optional<RemotePath> path;
  RemoteTimes remote;
  bool is_quiet = false;
};

Result<void> serve(MirrorCommand command) {
  auto interrupt = Interrupt::create();
  if (!interrupt) return tl::unexpected(interrupt.error());
  const auto path = path_of(command.options.name, command.path);
  if (!path) return tl::unexpected(path.error());
  auto runtime = Runtime::create();
  if (!runtime) return tl::unexpected(runtime.error());
  MirrorOptions& options = command.options;
  options.there.remote.path = *path;
  options.there.when_slow = command.when_slow.value_or(options.there.when_slow);
  command.remote.set(options.there.remote);
  options.here.access = command.access.value_or(options.here.access);
  options.interrupt_descriptor = interrupt->descriptor();
  if (!command.is_quiet) options.on_event = [](const std::string& line) { note_with_time(line); };
  auto mirror = Mirror::open(options, runtime->default_engine());
  if (!mirror) return tl::unexpected(mirror.error());
  auto served = mirror->serve();
  if (!served) return served;
  if (!interrupt->raised()) return {};
  return tl::unexpected(Error{Code::interrupted, "interrupted", {}});
}

Result<unsigned> parse_readers(std::string_view text) {
  return parse_number(text, 1, ProducerOptions::kMaxConsumers).map([](std::uint64_t number) {
    return static_cast<unsigned>(number);
  });
}

}  // namespace

void add_mirror(const Command& command, int& exit_code) {
  auto mirror = std::make_shared<MirrorCommand>();
  mirror->options.here.consumers = ProducerOptions::kMaxConsumers;
  command->add_option("NAME@HOST", mirror->options.name, "The channel there; NAME is its name here")
      ->required();
  add_parsed(*command, "--consumers", mirror->options.here.consumers, &parse_readers, "NUMBER",
             "Readers of this host at a time (default 32)");
  add_parsed(*command, "--when-slow", mirror->when_slow, &parse_when_slow, "POLICY",
             "block, drop-newest, drop-oldest or disconnect: the producer's policy there when all "
             "readers here together fall behind (block)");
  add_users(*command, mirror->access);
  add_path(*command, mirror->path);
  add_remote_times(*command, mirror->remote);
  command->add_flag("--once", mirror->options.is_for_one_stream,
                    "End with the stream, instead of waiting for the next producer there");
  command->add_flag("--quiet", mirror->is_quiet, "Print only errors");
  command->footer(
      "Each message crosses the network once, however many read it here. Runs until\n"
      "it is interrupted.\n"
      "Example: gantry mirror frames@10.0.0.2 & gantry get frames | ...");
  command->callback([mirror, &exit_code] {
    const auto done = serve(*mirror);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
