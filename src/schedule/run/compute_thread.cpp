#include "schedule/run/compute_thread.hpp"

#include "base/block_signals.hpp"
#include "base/event.hpp"
#include "base/result.hpp"
#include "base/worker_thread.hpp"
#include "schedule/run/elementwise.hpp"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;

// What it takes to wake the thread, and to be woken by it, in bytes of a sum. A link waits no
// longer for that than for any wake-up.
constexpr Bytes kAtOnceBytes = 256 << 10;

}  // namespace

Result<std::unique_ptr<ComputeThread>> ComputeThread::start(const Plan& plan,
                                                            const PlanPlaces& places,
                                                            GemmLibrary* gemm) {
  GANTRY_ASSIGN(Fd event, make_event());
  std::unique_ptr<ComputeThread> made(new ComputeThread(plan, places, gemm, std::move(event)));
  const BlockSignals blocked;
  GANTRY_ASSIGN(made->thread_,
                start_thread("the thread that computes", [self = made.get()] { self->work(); }));
  return made;
}

ComputeThread::~ComputeThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void ComputeThread::push(std::uint32_t item, std::uint32_t step) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({item, step});
    if (is_working_ || jobs_.size() > 1) return;
  }
  changed_.notify_all();
}

bool ComputeThread::does_at_once(std::uint32_t step) {
  const PlanStep& what = plan_.steps[step];
  const LocalRect to = places_.local(what.to);
  if (what.verb == PlanVerb::gemm || to.rows * to.row_bytes > kAtOnceBytes) return false;
  {
    const std::lock_guard lock(mutex_);
    if (is_working_ || !jobs_.empty()) return false;
  }
  return execute(what).has_value();  // only products fail
}

void ComputeThread::take_ended(std::vector<Ended>& ended) {
  const std::lock_guard lock(mutex_);
  if (ended_.empty()) return;
  drain(event_.get());
  for (Ended& one : ended_) ended.push_back(std::move(one));
  ended_.clear();
}

void ComputeThread::cancel() noexcept {
  std::unique_lock lock(mutex_);
  jobs_.clear();
  changed_.wait(lock, [this] { return !is_working_; });
  ended_.clear();
  drain(event_.get());
  has_failed_ = false;
}

std::chrono::nanoseconds ComputeThread::take_busy_time() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(busy_, {});
}

void ComputeThread::work() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || (!jobs_.empty() && !has_failed_); });
    if (is_over_) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    is_working_ = true;
    lock.unlock();
    const auto began = Clock::now();
    auto done = execute(plan_.steps[job.step]);
    const auto took = Clock::now() - began;
    lock.lock();
    is_working_ = false;
    busy_ += took;
    has_failed_ = !done;
    const auto noted = guarded([&]() -> Result<void> {
      ended_.push_back({job.item, done ? std::optional<Error>() : std::move(done).error()});
      return {};
    });
    if (!noted) is_over_ = true;  // no memory for a number: nothing can go on here
    if (ended_.size() <= 1) ring(event_.get());
    changed_.notify_all();  // cancel()
  }
}

// ---- steps -----------------------------------------------------------------------------------

Result<void> ComputeThread::multiply(const PlanStep& step) const {
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

Result<void> ComputeThread::execute(const PlanStep& step) const {
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
