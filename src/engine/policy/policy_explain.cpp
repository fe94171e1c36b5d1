#include <fmt/format.h>

#include <algorithm>

#include "engine/human.hpp"
#include "engine/policy/policy.hpp"

namespace gantry {
namespace {

std::chrono::nanoseconds whole(double ns) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
}

void append(std::string& text, const std::string& more) {
  if (!text.empty()) text += ", ";
  text += more;
}

std::string cache_reason(const Calibration& calibration, const Move& move, CacheUse cache) {
  const std::string share = human_bytes(calibration.cache_share);
  if (move.cache == CacheUse::streaming) return "streaming stores were asked for";
  if (move.cache == CacheUse::reader_soon && move.bytes <= calibration.cache_share)
    return fmt::format("temporal stores: a reader soon after finds up to {} in the cache", share);
  const std::string why =
      cache == CacheUse::streaming ? fmt::format("streaming stores: they are quicker from {} on",
                                                 human_bytes(calibration.streaming_from))
      : calibration.streaming_from == 0
          ? "temporal stores: streaming ones are quicker at no size here"
          : fmt::format("temporal stores: streaming ones are quicker only from {} on",
                        human_bytes(calibration.streaming_from));
  return move.cache == CacheUse::reader_soon
             ? fmt::format("{}, and no reader finds more than {} in the cache", why, share)
             : why;
}

std::string reshape_reason(const Move& move) {
  const ByteRange source = move.plan->source_of({move.plan_from, move.bytes});
  return fmt::format("a {} reshape: {} in, {} out", to_string(move.plan->kind()),
                     human_bytes(source.bytes), human_bytes(move.bytes));
}

std::string source_reason(const Calibration& calibration) {
  if (calibration.source == Calibration::Source::defaults)
    return "the times are estimates: nothing was measured (gantry calibrate)";
  return fmt::format("the times were measured on this machine ({} calibration)",
                     to_string(calibration.source));
}

}  // namespace

std::string Policy::why(std::size_t engine, const Verdict& verdict, const Move& move) const {
  const Member& member = members_[engine];
  if (!verdict.possible) return fmt::format("does not take it (a {})", to_string(move.kind));
  std::string text;
  if (verdict.shares_cpu)
    append(text, "no CPU is free for its worker at this moment: twice the time");
  if (verdict.ahead_ns > 0)
    append(text, fmt::format("{} until what is ahead has been done", human_time(verdict.ahead_ns)));
  if (verdict.pages_ns > 0)
    append(text, fmt::format("{} for pages that may be missing", human_time(verdict.pages_ns)));
  if (verdict.unaligned_ns > 0)
    append(text, fmt::format("{} for ends that are not on {} bytes",
                             human_time(verdict.unaligned_ns), member.alignment));
  if (engine != 0)
    append(text, fmt::format("{} of the caller's time", human_time(verdict.caller_ns)));
  return text;
}

void Policy::add_reasons(Explanation& explanation, const Move& move, const Situation& situation,
                         const Verdicts& verdicts, std::size_t chosen) const {
  const SubmitMode use = situation.use;
  const std::string& first = members_.front().name;
  auto& reasons = explanation.reasons;
  if (move.kind == Move::Kind::reshape && move.plan != nullptr)
    reasons.push_back(reshape_reason(move));
  if (is_small(move, use)) {
    const Bytes from = small_below(move, use);
    reasons.push_back(
        from == std::numeric_limits<Bytes>::max()
            ? fmt::format("no engine gains on {} at any size, {}", first, to_string(use))
            : fmt::format("below {} no engine gains on {}, {}", human_bytes(from), first,
                          to_string(use)));
  } else if (chosen == 0 && std::ranges::any_of(verdicts, &Verdict::shares_cpu)) {
    reasons.push_back("no CPU is free for a copy thread at this moment");
  } else if (chosen == 0) {
    reasons.push_back(
        use == SubmitMode::synchronous
            ? fmt::format("nobody ends it {:.0f} % sooner than {}, which costs the least CPU",
                          (kSynchronousMargin - 1) * 100, first)
            : fmt::format("nobody who is as quick leaves the caller more time than {}", first));
  } else if (use == SubmitMode::synchronous) {
    reasons.push_back(fmt::format(
        "it ends in {} of {}'s time",
        fmt::format("{:.0f} %", 100 * verdicts[chosen].predicted_ns / verdicts[0].predicted_ns),
        first));
  } else {
    reasons.push_back(fmt::format("it takes {} of the caller's time, {} takes {}",
                                  human_time(verdicts[chosen].caller_ns), first,
                                  human_time(verdicts[0].caller_ns)));
  }
  reasons.push_back(cache_reason(calibration_, move, explanation.cache));
  reasons.push_back(source_reason(calibration_));
}

Explanation Policy::explain(const Move& move, const Situation& situation) const {
  const Verdicts verdicts = weigh({&move, 1}, situation);
  const std::size_t chosen = is_small(move, situation.use) ? 0 : pick(verdicts, situation.use);
  Explanation explanation;
  explanation.engine = members_[chosen].kind;
  explanation.cache = cache_for(move);
  explanation.predicted = whole(verdicts[chosen].predicted_ns);
  for (std::size_t i = 0; i < members_.size(); ++i)
    explanation.candidates.push_back({members_[i].name, verdicts[i].possible,
                                      whole(verdicts[i].predicted_ns), why(i, verdicts[i], move)});
  add_reasons(explanation, move, situation, verdicts, chosen);
  return explanation;
}

}  // namespace gantry
