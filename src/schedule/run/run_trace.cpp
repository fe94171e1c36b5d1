#include "schedule/run/run_trace.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gantry {
namespace {

using trace::Awaited;
using trace::EventKind;

// A trace's verbs are those of plans, counted from 1.
constexpr std::uint8_t code_of(PlanVerb verb) noexcept {
  return static_cast<std::uint8_t>(static_cast<std::uint8_t>(verb) + 1);
}
static_assert(code_of(PlanVerb::put) == static_cast<std::uint8_t>(trace::StepVerb::put));
static_assert(code_of(PlanVerb::reduce) == static_cast<std::uint8_t>(trace::StepVerb::reduce));
static_assert(code_of(PlanVerb::barrier) == static_cast<std::uint8_t>(trace::StepVerb::barrier));

bool has_place(const PlanStep& step) noexcept {
  return step.verb != PlanVerb::signal && step.verb != PlanVerb::barrier;
}

/// What it moves or makes: of what comes from another rank the place there.
std::string place_of(const Plan& plan, const PlanStep& step) {
  if (step.verb == PlanVerb::signal) return fmt::format("to {}", step.to.rank);
  if (!has_place(step)) return {};
  return text_of(plan, step.verb == PlanVerb::get ? step.from : step.to);
}

Bytes size_of_step(const Plan& plan, const PlanStep& step) noexcept {
  if (!has_place(step)) return 0;
  return static_cast<Bytes>(step.to.rect.rows * step.to.rect.cols) *
         (plan.tensors[step.to.tensor].type.bits / kBitsOfByte);
}

}  // namespace

void RunTrace::write(EventKind kind, std::uint32_t step, Time begin, Time end) {
  const PlanStep& what = plan_.steps[step];
  into_.worked({.kind = kind,
                .detail = code_of(what.verb),
                .begin = begin,
                .end = end,
                .number = step,
                .bytes = size_of_step(plan_, what),
                .text = place_of(plan_, what)});
}

void RunTrace::slow_handed_over(std::uint32_t step) {
  handed_at_.resize(plan_.steps.size());
  if (!handed_at_[step]) handed_at_[step] = Deadline::Clock::now();
}

// One that was handed over before somebody recorded is not in the trace.
void RunTrace::slow_ended(std::uint32_t step, const EndedStep* times) {
  if (times != nullptr) return write(EventKind::step, step, times->began, times->ended);
  if (step < handed_at_.size() && handed_at_[step])
    write(EventKind::step, step, *handed_at_[step], Deadline::Clock::now());
}

void RunTrace::slow_arrived(std::uint32_t step) {
  const Time now = Deadline::Clock::now();
  write(EventKind::arrival, step, now, now);
}

void RunTrace::begin_wait(std::optional<std::uint32_t> step) {
  idle_since_ = Deadline::Clock::now();
  awaited_ = step;
}

void RunTrace::end_wait() {
  trace::EndTrace::Worked wait{.kind = EventKind::wait,
                               .detail = static_cast<std::uint8_t>(Awaited::ranks),
                               .begin = *idle_since_,
                               .end = std::max(turn_began_, *idle_since_)};
  idle_since_.reset();
  std::string text;
  if (awaited_) {
    const PlanStep& step = plan_.steps[*awaited_];
    text = fmt::format("{}, rank {}", to_string(step.verb), step.rank);
    wait.detail = static_cast<std::uint8_t>(Awaited::step);
    wait.number = *awaited_;
    wait.text = text;
  }
  into_.worked(wait);
}

}  // namespace gantry
