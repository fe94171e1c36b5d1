// gantry get: a channel to standard output.
#include <limits>

#include "commands.hpp"
#include "ends.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "streams.hpp"

namespace gantry::cli {
namespace {

struct GetOptions {
  std::string name;
  ReceiverOptions end;
  std::uint64_t count = std::numeric_limits<std::uint64_t>::max();
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
};

Result<void> write_segments(const Message& message, OutputStream& output) {
  for (std::size_t i = 0; i < message.segments(); ++i)
    if (auto written = output.write(message.segment(i).bytes); !written) return written;
  return {};
}

Result<void> get(const GetOptions& options) {
  auto interrupt = Interrupt::create();
  if (!interrupt) return tl::unexpected(interrupt.error());
  auto receiver =
      Receiver::open(options.name, options.end, Deadline::after(options.timeout), *interrupt);
  if (!receiver) return tl::unexpected(receiver.error());
  OutputStream output(*interrupt);
  for (std::uint64_t received = 0; received < options.count; ++received) {
    const auto message = receiver->receive(Deadline::after(options.timeout));
    if (!message && message.error().code == Code::closed) return {};
    if (!message) return tl::unexpected(message.error());
    if (auto written = write_segments(*message, output); !written) return written;
  }
  return {};
}

Result<std::uint64_t> parse_messages(std::string_view text) {
  return parse_number(text, 1);
}

Result<std::optional<unsigned>> parse_depth(std::string_view text) {
  return parse_number(text, 1, ProducerOptions::kMaxSlots).map([](std::uint64_t depth) {
    return std::optional(static_cast<unsigned>(depth));
  });
}

}  // namespace

void add_get(const Command& command, int& exit_code) {
  auto options = std::make_shared<GetOptions>();
  command->add_option("NAME", options->name, "The channel, or this stage's input")
      ->required()
      ->type_name(kChannelType);
  add_parsed(*command, "--count", options->count, &parse_messages, "NUMBER",
             "End after so many messages");
  add_parsed(*command, "--timeout", options->timeout, &parse_time, "SECONDS",
             "Give up when the channel, or the next message, does not come in time");
  add_parsed(*command, "--when-slow", options->end.when_slow, &parse_when_slow, "POLICY",
             "block, drop-newest, drop-oldest or disconnect: the producer's policy when this end "
             "falls behind (block)");
  add_parsed(*command, "--depth", options->end.depth, &parse_depth, "NUMBER",
             "Messages that may wait for this end (all that the producer may have on their way); "
             "with --when-slow drop-oldest: 1 for the newest");
  add_users(*command, options->end.access);
  add_path(*command, options->end.path);
  add_remote_times(*command, options->end.remote);
  command->footer(
      "Waits for the channel to appear; ends when its producer has. Segments of a\n"
      "message are written one behind the other.\n"
      "Example: gantry get photos | tar x");
  command->callback([options, &exit_code] {
    const auto done = get(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
