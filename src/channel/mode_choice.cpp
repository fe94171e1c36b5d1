#include "channel/mode_choice.hpp"

#include "base/result.hpp"
#include "channel/status_text.hpp"

namespace gantry {

Mode choose_mode(const ModeQuestion& question) noexcept {
  Mode mode = question.asked == Mode::automatic ? question.channel : question.asked;
  if (mode == Mode::automatic)
    mode = question.copied < kPipelinedFrom ? Mode::whole : Mode::pipelined;
  if (mode == Mode::immutable) return mode;
  if (question.copied < kChunkedFrom) return Mode::whole;
  // A window has no room for what is there already, and waits for every reader.
  const bool has_window = !question.needs_table && question.all_block;
  return mode == Mode::streamed && !has_window ? Mode::pipelined : mode;
}

std::vector<std::string> explain_mode(const ModeQuestion& question) {
  const std::string size = bytes_text(question.copied);
  std::vector<std::string> because;
  if (question.copied <= Message::kInlineBytes) {
    because.push_back(fmt::format("{} travel in the ring itself: it takes up to {}", size,
                                  bytes_text(Message::kInlineBytes)));
    return because;
  }
  const Mode mode = question.asked == Mode::automatic ? question.channel : question.asked;
  if (mode == Mode::automatic)
    because.push_back(fmt::format("messages go pipelined from {} on, and whole below",
                                  bytes_text(kPipelinedFrom)));
  else
    because.push_back(fmt::format(
        "{} was asked for by {}", to_string(mode),
        question.asked == Mode::automatic ? "the channel's options" : "the send's options"));
  if (mode == Mode::immutable) return because;
  if (mode != Mode::whole && question.copied < kChunkedFrom)
    because.push_back(
        fmt::format("below {} there are no chunks worth it", bytes_text(kChunkedFrom)));
  else if (mode == Mode::streamed && question.needs_table)
    because.emplace_back("several segments, or a tensor, do not fit a window: pipelined instead");
  else if (mode == Mode::streamed && !question.all_block)
    because.emplace_back(
        "a window would wait for a consumer that is to hold nobody up: pipelined "
        "instead");
  if (question.has_second)
    because.push_back(fmt::format(
        "send() copies with {} from {} on",
        is_for_two(question.copied) ? "two threads, as always" : "one thread, and with two",
        bytes_text(kByTwoFrom)));
  return because;
}

}  // namespace gantry
