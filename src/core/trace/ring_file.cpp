#include "core/trace/ring_file.hpp"

#include <charconv>
#include <cstring>
#include <fstream>
#include <gantry/engine.hpp>

#include "core/base/enum_text.hpp"

namespace gantry::trace {
namespace {

// In the order of EventKind, which counts from 1, as all of these do.
constexpr std::string_view kKinds[] = {"?",       "send",     "copy",    "publish",  "receive",
                                       "wait",    "release",  "wake",    "span",     "step",
                                       "arrival", "transfer", "control", "operation"};
static_assert(static_cast<std::size_t>(EventKind::operation) + 1 == std::size(kKinds));
// In the order of Awaited, StepVerb, Moved and QueueWork.
constexpr std::string_view kAwaited[] = {"",        "credit", "consumer", "message",
                                         "landing", "step",   "ranks",    "the peer"};
constexpr std::string_view kVerbs[] = {"",       "put",  "get",    "copy",   "gemm",
                                       "reduce", "fill", "signal", "barrier"};
constexpr std::string_view kMoved[] = {"", "put", "get", "landed", "served", "sent", "received"};
constexpr std::string_view kQueueWork[] = {"",     "copy-in", "copy-out", "copy",
                                           "fill", "launch",  "record"};

/// What the detail of an event of that kind stands for; nothing: no writer of ours wrote it.
std::optional<std::string> detail_of(EventKind kind, std::uint8_t detail) {
  using enum EventKind;
  std::string_view text;
  if (kind == wait) text = text_in(kAwaited, detail, "");
  if (kind == step || kind == arrival) text = text_in(kVerbs, detail, "");
  if (kind == transfer || kind == control) text = text_in(kMoved, detail, "");
  if (kind == operation) text = text_in(kQueueWork, detail, "");
  if (kind == copy && detail < kCopyEngines) text = to_string(static_cast<CopyEngine>(detail));
  const bool has_detail = kind == wait || kind == copy || kind >= step;
  return has_detail && text.empty() ? std::nullopt : std::optional<std::string>(text);
}

bool is_kind(std::uint8_t kind) noexcept {
  return kind >= static_cast<std::uint8_t>(EventKind::send) &&
         kind <= static_cast<std::uint8_t>(EventKind::operation);
}

std::string span_name(const Ring::Event& words) {
  std::array<char, Span::kMostName + 1> name{};
  std::memcpy(name.data(), &words[kSequence], name.size());
  return text_of(name);
}

/// Whether a writer of ours gives such an event a text.
bool has_text(EventKind kind, std::uint8_t detail) noexcept {
  return kind >= EventKind::step ||
         (kind == EventKind::wait && detail >= static_cast<std::uint8_t>(Awaited::step));
}

/// What the words behind the times say of such an event.
bool decode_text(const Ring::Event& words, Event& event) {
  ShortText text{};
  std::memcpy(text.data(), &words[kSequence], sizeof(std::uint64_t));
  std::memcpy(&text[sizeof(std::uint64_t)], &words[kCause], 2 * sizeof(std::uint64_t));
  auto what = detail_of(event.kind, static_cast<std::uint8_t>(words[kWhat] >> 8));
  if (!what) return false;
  event.number = static_cast<std::uint32_t>(words[kWhat] >> 32);
  event.bytes = words[kBytes];
  event.what = std::move(*what);
  const std::string says = text_of(text);
  if (event.kind == EventKind::wait && !says.empty())
    event.what += fmt::format(" {} ({})", event.number, says);
  else if (!says.empty())
    event.what += " " + says;
  return true;
}

}  // namespace

std::optional<Event> decode_event(const Ring::Event& words, std::uint64_t channel,
                                  const TimeScale& time) {
  const auto kind = static_cast<std::uint8_t>(words[kWhat]);
  if (!is_kind(kind)) return std::nullopt;
  Event event;
  event.kind = static_cast<EventKind>(kind);
  const bool is_text = (words[kWhat] & kIsText) != 0;
  if (is_text != has_text(event.kind, static_cast<std::uint8_t>(words[kWhat] >> 8)))
    return std::nullopt;
  const auto ns_of = [&](std::uint64_t at) { return is_text ? at : time.ns_of(at); };
  event.begin_ns = ns_of(words[kBegin]);
  const std::uint64_t end_ns = ns_of(words[kBegin] + words[kDuration]);
  if (event.begin_ns < time.least_ns || end_ns > time.most_ns || end_ns < event.begin_ns)
    return std::nullopt;
  event.duration_ns = end_ns - event.begin_ns;
  if (event.kind == EventKind::span) {
    event.what = span_name(words);
    return event;
  }
  if (is_text) return decode_text(words, event) ? std::optional(std::move(event)) : std::nullopt;
  auto what = detail_of(event.kind, static_cast<std::uint8_t>(words[kWhat] >> 8));
  if (!what) return std::nullopt;
  event.what = std::move(*what);
  event.chunks = static_cast<std::uint32_t>(words[kWhat] >> 32);
  event.bytes = words[kBytes];
  if (words[kSequence] != 0) event.message = {channel, words[kSequence]};
  if (event.kind == EventKind::send) event.cause = {words[kCause], words[kCauseSequence]};
  if (event.kind == EventKind::wait || event.kind == EventKind::wake)
    event.peer = static_cast<std::int32_t>(words[kCause]);
  return event;
}

// A double has 52 bits: the difference, not the number, is turned.
std::uint64_t TimeScale::ns_of(std::uint64_t ticks) const noexcept {
  if (ns_per_tick == 0) return ticks;
  const auto since = static_cast<std::int64_t>(ticks - start.ticks);
  constexpr double kFar = 9e18;
  const double ns = static_cast<double>(since) * ns_per_tick;
  if (!(ns > -kFar && ns < kFar)) return 0;
  return start.ns + static_cast<std::uint64_t>(static_cast<std::int64_t>(ns));
}

std::string_view to_string(EventKind kind) noexcept {
  return text_in(kKinds, kind, "?");
}

// proc(5): field 22; the name, in parentheses, may hold anything.
std::uint64_t start_time_of(std::int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');
  auto at = text.rfind(')');
  constexpr int kSpaces = 20;  // before field 22, behind the name
  for (int i = 0; i < kSpaces && at != std::string::npos; ++i) at = text.find(' ', at + 1);
  std::uint64_t start = 0;
  if (at != std::string::npos)
    std::from_chars(text.data() + at + 1, text.data() + text.size(), start);
  return start;
}

}  // namespace gantry::trace
