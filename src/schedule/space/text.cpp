#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/result.hpp"
#include "schedule/quote.hpp"
#include "schedule/space/split.hpp"

// Schedules as sentences of words, apart by one space.
namespace gantry {
namespace {

constexpr std::string_view kMagic = "gantry-schedule 1";

template <class Value>
struct Word {
  std::string_view text;
  Value value;
};
constexpr std::array kKinds = {
    Word{"all-gather-gemm", OverlapKind::all_gather_gemm},
    Word{"gemm-reduce-scatter", OverlapKind::gemm_reduce_scatter},
    Word{"all-to-all-gemm", OverlapKind::all_to_all_gemm},
};
constexpr std::array kPatterns = {
    Word{"serial", SchedulePattern::serial},
    Word{"ring", SchedulePattern::ring},
    Word{"at-once", SchedulePattern::at_once},
};
constexpr std::array kShapes = {Word{"rows", ScheduleShape::rows},
                                Word{"depth", ScheduleShape::depth}};
constexpr std::array kStarts = {Word{"even", ScheduleStart::even},
                                Word{"own-first", ScheduleStart::own_first}};
constexpr std::array kGrains = {Word{"step", ScheduleGrain::per_step},
                                Word{"piece", ScheduleGrain::per_piece}};
constexpr std::array kPaths = {Word{"put", SchedulePath::put}, Word{"get", SchedulePath::get}};

template <class Words, class Value>
std::string_view word_of(const Words& words, Value value) noexcept {
  for (const auto& word : words)
    if (word.value == value) return word.text;
  return "?";
}

std::string_view next_word(std::string_view& text) noexcept {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

/// Reads the next word of `text`, which is one of `words`.
template <class Words, class Value>
Result<void> read(std::string_view& text, const Words& words, Value& value) {
  const std::string_view next = next_word(text);
  std::string all;
  for (const auto& word : words) {
    if (word.text == next) {
      value = word.value;
      return {};
    }
    all += fmt::format("{}{}", all.empty() ? "" : ", ", word.text);
  }
  return fail(Code::invalid_argument,
              next.empty() ? std::string("a word of the schedule is missing")
                           : quote(next) + " is no word of a schedule here",
              "one of " + all);
}

Result<void> read_chunks(std::string_view& text, unsigned& chunks) {
  const std::string_view word = next_word(text);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), chunks);
  if (error == std::errc() && end == word.data() + word.size() && chunks >= 1 &&
      chunks <= kMostChunks)
    return {};
  return fail(Code::invalid_argument, quote(word) + " chunks",
              fmt::format("a whole number from 1 to {}", kMostChunks));
}

Result<Schedule> read_schedule(std::string_view text) {
  const std::string_view whole = text;
  if (text.starts_with(kMagic))
    return fail(Code::invalid_argument, "a whole sentence where a schedule belongs",
                fmt::format("parse_sentence() reads it; or leave '{} OPERATOR' out", kMagic));
  Schedule schedule;
  GANTRY_TRY(read(text, kPatterns, schedule.pattern));
  if (schedule.pattern != SchedulePattern::serial) {
    GANTRY_TRY(read(text, kShapes, schedule.shape));
    GANTRY_TRY(read(text, kStarts, schedule.start));
    GANTRY_TRY(read(text, kGrains, schedule.grain));
    GANTRY_TRY(read_chunks(text, schedule.chunks));
  }
  GANTRY_TRY(read(text, kPaths, schedule.path));
  if (!text.empty()) return fail(Code::invalid_argument, quote(text) + " is too much");
  if (to_string(schedule) == whole) return schedule;
  return fail(Code::invalid_argument, quote(whole) + " is no schedule as it is written",
              fmt::format("'{}'", to_string(schedule)));
}

}  // namespace

std::string_view to_string(OverlapKind kind) noexcept {
  return word_of(kKinds, kind);
}

Result<OverlapKind> parse_overlap_kind(std::string_view text) {
  return guarded([&]() -> Result<OverlapKind> {
    const auto known = std::ranges::find(kKinds, text, &Word<OverlapKind>::text);
    if (known != kKinds.end()) return known->value;
    return fail(Code::invalid_argument, "there is no operator " + quote(text),
                "all-gather-gemm, gemm-reduce-scatter or all-to-all-gemm");
  });
}

std::string to_string(const Schedule& schedule) {
  if (schedule.pattern == SchedulePattern::serial)
    return fmt::format("serial {}", word_of(kPaths, schedule.path));
  return fmt::format("{} {} {} {} {} {}", word_of(kPatterns, schedule.pattern),
                     word_of(kShapes, schedule.shape), word_of(kStarts, schedule.start),
                     word_of(kGrains, schedule.grain), schedule.chunks,
                     word_of(kPaths, schedule.path));
}

Result<Schedule> parse_schedule(std::string_view text) {
  return guarded([&] { return read_schedule(text); });
}

std::string to_string(const ScheduleSentence& sentence) {
  return fmt::format("{} {} {}", kMagic, to_string(sentence.kind), to_string(sentence.schedule));
}

Result<ScheduleSentence> parse_sentence(std::string_view text) {
  return guarded([&]() -> Result<ScheduleSentence> {
    if (!text.starts_with(kMagic) || text.substr(kMagic.size()).empty() ||
        text[kMagic.size()] != ' ')
      return fail(Code::invalid_argument, "no schedule of this version",
                  fmt::format("it begins with '{} '", kMagic));
    text.remove_prefix(kMagic.size() + 1);
    ScheduleSentence sentence;
    GANTRY_TRY(read(text, kKinds, sentence.kind));
    GANTRY_ASSIGN(sentence.schedule, read_schedule(text));
    return sentence;
  });
}

}  // namespace gantry
