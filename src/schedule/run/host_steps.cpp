#include "schedule/run/host_steps.hpp"

#include "base/result.hpp"
#include "schedule/run/elementwise.hpp"

namespace gantry {
namespace {

// What it takes to wake the thread, and to be woken by it, in bytes of a sum. A link waits no
// longer for that than for any wake-up.
constexpr Bytes kAtOnceBytes = 256 << 10;

}  // namespace

Result<std::unique_ptr<HostSteps>> HostSteps::start(const Plan& plan, const PlanPlaces& places,
                                                    GemmLibrary* gemm, EndedSteps& ended) {
  std::unique_ptr<HostSteps> made(new HostSteps(plan, places, gemm));
  GANTRY_ASSIGN(made->thread_, StepThread::start(ended));
  return made;
}

void HostSteps::push(std::uint32_t item, std::uint32_t step) {
  thread_->push(item, [this, step] { return execute(plan_.steps[step]); });
}

bool HostSteps::does_at_once(std::uint32_t step) {
  const PlanStep& what = plan_.steps[step];
  const LocalRect to = places_.local(what.to);
  if (what.verb == PlanVerb::gemm || to.rows * to.row_bytes > kAtOnceBytes) return false;
  return thread_->is_idle() && execute(what).has_value();  // only products fail
}

Result<void> HostSteps::multiply(const PlanStep& step) const {
  const DataType type = plan_.tensors[step.to.tensor].type;
  const auto element = static_cast<std::int64_t>(type.bits / 8);
  const LocalRect a = places_.local(step.from);
  const LocalRect b = places_.local(step.other);
  const LocalRect c = places_.local(step.to);
  const auto stride = [&](const LocalRect& rect) {
    return static_cast<std::int64_t>(rect.stride) / element;
  };
  Gemm gemm;
  gemm.type = type;
  gemm.m = step.to.rect.rows;
  gemm.n = step.to.rect.cols;
  gemm.k = step.from.rect.cols;
  gemm.a = a.data;
  gemm.a_stride = stride(a);
  gemm.b = b.data;
  gemm.b_stride = stride(b);
  gemm.c = c.data;
  gemm.c_stride = stride(c);
  gemm.adds = step.adds;
  return gemm_->multiply(gemm);
}

Result<void> HostSteps::execute(const PlanStep& step) const {
  const LocalRect to = places_.local(step.to);
  switch (step.verb) {
    case PlanVerb::gemm:
      return multiply(step);
    case PlanVerb::reduce:
      add_rect(plan_.tensors[step.to.tensor].type, to, places_.local(step.from));
      return {};
    case PlanVerb::copy:
      copy_rect(to, places_.local(step.from));
      return {};
    default:
      fill_rect(to);
      return {};
  }
}

}  // namespace gantry
