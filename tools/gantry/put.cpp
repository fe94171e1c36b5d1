// gantry put: standard input into a channel.
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
  unsigned slots = ProducerOptions{}.slots;
  bool lines = false;
  bool wait_consumer = false;
};

// Bytes go from the input straight into the memory that the reader sees.
Result<void> put_blocks(Sender& sender, Bytes message_bytes, const Interrupt& interrupt) {
  widen_pipe(STDIN_FILENO);
  for (;;) {
    auto loan = sender.loan(message_bytes);
    if (!loan) return tl::unexpected(loan.error());
    const auto got = read_input(loan->bytes(), interrupt);
    if (!got) return tl::unexpected(got.error());
    if (*got == 0) return {};
    const bool ended = *got < message_bytes;
    loan->shrink(*got);
    auto published = sender.publish(std::move(*loan));
    if (!published || ended) return published;
  }
}

Result<void> put_lines(Sender& sender, Bytes longest, const Interrupt& interrupt) {
  LineReader reader(longest, interrupt);
  for (;;) {
    const auto line = reader.next();
    if (!line) return tl::unexpected(line.error());
    if (line->empty()) return {};
    if (auto sent = sender.send(*line); !sent) return sent;
  }
}

Result<void> put(const PutOptions& options) {
  auto interrupt = Interrupt::create();
  if (!interrupt) return tl::unexpected(interrupt.error());
  auto sender = Sender::open(options.name, options.slots, *interrupt);
  if (!sender) return tl::unexpected(sender.error());
  if (options.wait_consumer)
    if (auto joined = sender->wait_for_consumer(); !joined) return joined;
  auto done = options.lines ? put_lines(*sender, options.message_bytes, *interrupt)
                            : put_blocks(*sender, options.message_bytes, *interrupt);
  return done ? sender->close() : done;
}

Result<Bytes> parse_message_size(std::string_view text) {
  auto bytes = parse_bytes(text);
  if (bytes && *bytes == 0)
    return tl::unexpected(
        Error{Code::invalid_argument, "'0': a message has at least one byte", {}});
  return bytes;
}

Result<unsigned> parse_slots(std::string_view text) {
  return parse_number(text, 1, ProducerOptions::kMaxSlots).map([](std::uint64_t slots) {
    return static_cast<unsigned>(slots);
  });
}

}  // namespace

void add_put(CLI::App& app, int& exit_code) {
  auto* const command = app.add_subcommand("put", "Send standard input into a channel");
  auto options = std::make_shared<PutOptions>();
  command->add_option("NAME", options->name, "The channel, or this stage's output")->required();
  add_parsed(*command, "--message-size", options->message_bytes, &parse_message_size, "BYTES",
             "Bytes a message (default 1M); the longest line with --lines");
  command->add_flag("--lines", options->lines, "Send every line as a message, newline included");
  add_parsed(*command, "--slots", options->slots, &parse_slots, "NUMBER",
             "Messages that may be on their way (default 8)");
  command->add_flag("--wait-consumer", options->wait_consumer,
                    "Read nothing before a consumer has joined");
  command->footer(
      "Ends when a consumer has received everything.\n"
      "Example: tar c photos | gantry put photos");
  command->callback([options, &exit_code] {
    const auto done = put(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
