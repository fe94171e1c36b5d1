#include "core/channel/producer/mode_choice.hpp"

#include "core/base/result.hpp"
#include "core/channel/status/status_text.hpp"

namespace gantry {

SendMode choose_mode(const ModeQuestion& question) noexcept {
  SendMode mode = question.asked == SendMode::automatic ? question.channel : question.asked;
  if (mode == SendMode::automatic)
    mode = question.copied < kPipelinedFrom ? SendMode::whole : SendMode::pipelined;
  if (mode == SendMode::immutable) return mode;
  if (question.copied < kChunkedFrom) return SendMode::whole;
  // A window has no room for what is already in memory, and waits for every consumer.
  const bool has_window = !question.has_several && question.all_block;
  return mode == SendMode::streamed && !has_window ? SendMode::pipelined : mode;
}

std::vector<std::string> explain_mode(const ModeQuestion& question) {
  const std::string size = bytes_text(question.copied);
  std::vector<std::string> because;
  if (question.copied <= Message::kInlineBytes) {
    because.push_back(fmt::format("{} travel in the ring itself: it takes up to {}", size,
                                  bytes_text(Message::kInlineBytes)));
    return because;
  }
  const SendMode mode = question.asked == SendMode::automatic ? question.channel : question.asked;
  if (question.copied <= question.cell && !question.has_several && mode != SendMode::immutable) {
    because.push_back(
        fmt::format("{} go beside their record, which takes up to {} for at most {} consumers "
                    "that all block; they hold no slot",
                    size, bytes_text(question.cell), kBesideReaders));
    return because;
  }
  if (!question.no_cell.empty())
    because.push_back(
        fmt::format("it takes a slot; so small a payload takes none only if there are at most {} "
                    "consumers, which all block, and no history: {}",
                    kBesideReaders, question.no_cell));
  if (mode == SendMode::automatic)
    because.push_back(fmt::format("messages go pipelined from {} on, and whole below",
                                  bytes_text(kPipelinedFrom)));
  else
    because.push_back(fmt::format(
        "{} was asked for by {}", to_string(mode),
        question.asked == SendMode::automatic ? "the channel's options" : "the send's options"));
  if (mode == SendMode::immutable) return because;
  if (mode != SendMode::whole && question.copied < kChunkedFrom)
    because.push_back(
        fmt::format("below {} there are no chunks worth it", bytes_text(kChunkedFrom)));
  else if (mode == SendMode::streamed && question.has_several)
    because.emplace_back("several segments do not fit a window: pipelined instead");
  else if (mode == SendMode::streamed && !question.all_block)
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
