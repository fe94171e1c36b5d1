// gantry put: standard input into a channel.
#include <fmt/format.h>
#include <unistd.h>

#include "commands.hpp"
#include "ends.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "streams.hpp"

namespace gantry::cli {
namespace {

struct PutOptions {
  std::string name;
  Bytes message_bytes = Bytes{1} << 20;
  SenderOptions end;
  bool lines = false;
  bool records = false;
  bool wait_consumer = false;
};

/// Bytes at the end of the input that were not sent, since they are no whole element.
using Rest = Bytes;

// The most of `bytes` that can be converted: elements and groups are not cut.
Bytes whole_part(const std::optional<As>& as, Bytes bytes) {
  while (as && bytes != 0 && !as->plan_for({}, bytes)) --bytes;
  return bytes;
}

// Bytes go from the input straight into the memory that the reader sees.
Result<Rest> put_blocks(Sender& sender, const PutOptions& options, const Interrupt& interrupt) {
  widen_pipe(STDIN_FILENO);
  for (;;) {
    auto loan = sender.loan(options.message_bytes);
    if (!loan) return tl::unexpected(loan.error());
    auto got = read_input(loan->bytes(), interrupt);
    if (!got) return got;
    const bool ended = *got < options.message_bytes;
    const Bytes whole = ended ? whole_part(sender.as(), *got) : *got;
    if (whole == 0) return *got;
    loan->shrink(whole);
    if (auto published = sender.publish(std::move(*loan)); !published)
      return tl::unexpected(published.error());
    if (ended) return *got - whole;
  }
}

// In other modes the message is copied while its readers have it, or sealed.
Result<Rest> put_copies(Sender& sender, const PutOptions& options, const Interrupt& interrupt) {
  widen_pipe(STDIN_FILENO);
  std::vector<std::byte> buffer(options.message_bytes);
  for (;;) {
    auto got = read_input(buffer, interrupt);
    if (!got) return got;
    const bool ended = *got < options.message_bytes;
    const Bytes whole = ended ? whole_part(sender.as(), *got) : *got;
    if (whole == 0) return *got;
    if (auto sent = sender.send(std::span(buffer).first(whole)); !sent)
      return tl::unexpected(sent.error());
    if (ended) return *got - whole;
  }
}

Result<Rest> put_lines(Sender& sender, Bytes longest, const Interrupt& interrupt) {
  LineReader reader(longest, interrupt);
  for (;;) {
    const auto line = reader.next();
    if (!line) return tl::unexpected(line.error());
    if (line->empty()) return Rest{0};
    if (auto sent = sender.send(*line); !sent) return tl::unexpected(sent.error());
  }
}

Result<Rest> put_input(Sender& sender, const PutOptions& options, const Interrupt& interrupt) {
  if (options.lines) return put_lines(sender, options.message_bytes, interrupt);
  const SendMode mode = options.end.mode;
  const bool is_whole = mode == SendMode::automatic || mode == SendMode::whole;
  return is_whole ? put_blocks(sender, options, interrupt) : put_copies(sender, options, interrupt);
}

// So that only the end of the input can hold something that is not whole.
Result<void> make_messages_whole(const Sender& sender, PutOptions& options) {
  const Bytes whole = whole_part(sender.as(), options.message_bytes);
  if (whole == 0)
    return tl::unexpected(
        Error{Code::invalid_argument,
              fmt::format("as '{}': a message of {} B has no room for the least that it converts",
                          sender.as()->text(), options.message_bytes),
              "raise --message-size"});
  options.message_bytes = whole;
  return {};
}

Error cut_short(const Sender& sender, Rest rest) {
  return {Code::invalid_argument,
          fmt::format("standard input: its last {} B are too few to be converted, '{}'", rest,
                      sender.as()->text()),
          "all before them was sent"};
}

Result<void> put(PutOptions& options) {
  auto interrupt = Interrupt::create();
  if (!interrupt) return tl::unexpected(interrupt.error());
  if (!options.lines && !options.records)
    if (auto fine = Sender::check_single_stream(options.name); !fine) return fine;
  auto sender = Sender::open(options.name, options.end, *interrupt);
  if (!sender) return tl::unexpected(sender.error());
  if (!options.lines)
    if (auto whole = make_messages_whole(*sender, options); !whole) return whole;
  const auto notice = sender->notice(options.wait_consumer);
  if (options.wait_consumer)
    if (auto joined = sender->wait_for_consumers(); !joined) return joined;
  const auto rest = put_input(*sender, options, *interrupt);
  if (!rest) return tl::unexpected(rest.error());
  if (auto closed = sender->close(); !closed || *rest == 0) return closed;
  return tl::unexpected(cut_short(*sender, *rest));
}

Result<Bytes> parse_message_size(std::string_view text) {
  auto bytes = parse_bytes(text);
  if (bytes && *bytes == 0)
    return tl::unexpected(
        Error{Code::invalid_argument, "'0': a message has at least one byte", {}});
  return bytes;
}

Result<std::optional<As>> parse_as(std::string_view text) {
  auto as = As::parse(text);
  if (!as) return tl::unexpected(as.error());
  if (as->from) return std::optional(*std::move(as));
  return tl::unexpected(Error{Code::invalid_argument,
                              fmt::format("'{}': standard input has no type of its own", text),
                              fmt::format("say what it holds: \"f32 -> {}\"", as->text())});
}

Result<unsigned> parse_slots(std::string_view text) {
  return parse_number(text, 1, ProducerOptions::kMaxSlots).map([](std::uint64_t slots) {
    return static_cast<unsigned>(slots);
  });
}

Result<std::optional<unsigned>> parse_consumers(std::string_view text) {
  return parse_number(text, 1, ProducerOptions::kMaxConsumers).map([](std::uint64_t consumers) {
    return std::optional(static_cast<unsigned>(consumers));
  });
}

}  // namespace

void add_put(const Command& command, int& exit_code) {
  auto options = std::make_shared<PutOptions>();
  command->add_option("NAME", options->name, "The channel, or this stage's output")->required();
  add_parsed(*command, "--message-size", options->message_bytes, &parse_message_size, "BYTES",
             "Bytes a message (default 1M); the longest line with --lines");
  const auto lines = command->add_flag("--lines", options->lines,
                                       "Send every line as a message, newline included");
  command->add_flag("--records", options->records,
                    "Each message stands alone, so replicas of a stage may share them");
  add_parsed(*command, "--slots", options->end.slots, &parse_slots, "NUMBER",
             "Messages that may be on their way (default 8)");
  add_parsed(*command, "--consumers", options->end.consumers, &parse_consumers, "NUMBER",
             "Consumers that may join, each of which gets every message (default 1)");
  command->add_flag("--wait-consumer", options->wait_consumer,
                    "Begin to read when a consumer has joined; with --consumers: all of them");
  add_parsed(*command, "--mode", options->end.mode, &parse_send_mode, "MODE",
             "automatic, whole, pipelined, streamed or immutable: when readers see a message");
  add_parsed(
      *command, "--as", options->end.as, &parse_as, "FROM -> TO",
      "What the elements of the input are and become on their way: \"f32 -> bf16\"; messages "
      "have a whole number of them")
      ->excludes(lines);
  add_users(*command, options->end.access);
  add_path(*command, options->end.path);
  add_remote_times(*command, options->end.remote);
  command->footer(
      "Ends when a consumer has received everything; one on another host\n"
      "that takes it from here: when the bridge has.\n"
      "Example: tar c photos | gantry put photos\n"
      "         gantry put weights --as 'f32 -> bf16' < weights.f32");
  command->callback([options, &exit_code] {
    const auto done = put(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
