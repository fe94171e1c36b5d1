#include "ranks/schedule/run/host_steps.hpp"

#include <fmt/format.h>

#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/event.hpp"
#include "core/base/half_float.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;

// What a library does that throws is an error of its step.
Result<void> caught(const StepThread::Work& work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tl::unexpected(Error{Code::out_of_memory, "out of memory", {}});
  } catch (const std::exception& thrown) {
    return guarded([&]() -> Result<void> {
      return fail(Code::system, fmt::format("the library threw: {}", thrown.what()));
    });
  } catch (...) {
    return guarded([]() -> Result<void> { return fail(Code::system, "the library threw"); });
  }
}

struct Float16 {
  std::uint16_t bits = 0;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
};

template <class Number>
Number sum(Number one, Number other) noexcept {
  return static_cast<Number>(one + other);
}
Float16 sum(Float16 one, Float16 other) noexcept {
  return {f16_of_float(float_of_f16(one.bits) + float_of_f16(other.bits))};
}
Bfloat16 sum(Bfloat16 one, Bfloat16 other) noexcept {
  return {bf16_of_float(float_of_bf16(one.bits) + float_of_bf16(other.bits))};
}

// The blocks are what the compiler turns into vectors.
template <class Number>
void add_row(Number* to, const Number* from, std::size_t count) noexcept {
  constexpr std::size_t kBlock = 64 / sizeof(Number);
  std::size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    Number block[kBlock];
    for (std::size_t j = 0; j < kBlock; ++j) block[j] = sum(to[i + j], from[i + j]);
    std::memcpy(to + i, block, sizeof block);
  }
  for (; i < count; ++i) to[i] = sum(to[i], from[i]);
}

template <class Number>
void add_rows(const LocalRect& to, const LocalRect& from) noexcept {
  for (Bytes row = 0; row < to.rows; ++row)
    add_row(reinterpret_cast<Number*>(to.data + row * to.stride),
            reinterpret_cast<const Number*>(from.data + row * from.stride),
            to.row_bytes / sizeof(Number));
}

// What it takes to wake the thread, and to be woken by it, in bytes of a sum. A link waits no
// longer for that than for any wake-up.
constexpr Bytes kAtOnceBytes = 256 << 10;

}  // namespace

Result<std::unique_ptr<EndedSteps>> EndedSteps::make() {
  GANTRY_ASSIGN(Fd event, make_event());
  return std::unique_ptr<EndedSteps>(new EndedSteps(std::move(event)));
}

void EndedSteps::expect() {
  const std::lock_guard lock(mutex_);
  const std::size_t all = ended_.size() + ++expected_;
  if (all > ended_.capacity()) ended_.reserve(2 * all);
}

void EndedSteps::tell(EndedStep ended) noexcept {
  const std::lock_guard lock(mutex_);
  GANTRY_DEBUG_ASSERT(ended_.size() < ended_.capacity());  // I1
  GANTRY_DEBUG_ASSERT(expected_ > 0);                      // by expect()
  ended_.push_back(std::move(ended));
  --expected_;
  if (ended_.size() == 1) ring(event_.get());
}

void EndedSteps::take(std::vector<EndedStep>& ended) {
  const std::lock_guard lock(mutex_);
  if (ended_.empty()) return;
  drain(event_.get());
  for (EndedStep& one : ended_) ended.push_back(std::move(one));
  ended_.clear();
}

void EndedSteps::forget() noexcept {
  const std::lock_guard lock(mutex_);
  ended_.clear();
  expected_ = 0;
  drain(event_.get());
}

Result<std::unique_ptr<StepThread>> StepThread::start(EndedSteps& ended) {
  std::unique_ptr<StepThread> made(new StepThread(ended));
  GANTRY_ASSIGN(made->thread_,
                start_thread("the thread that computes", [self = made.get()] { self->work(); }));
  return made;
}

StepThread::~StepThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void StepThread::push(std::uint32_t item, Work work) {
  ended_.expect();
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({item, std::move(work)});
    if (is_working_ || jobs_.size() > 1) return;
  }
  changed_.notify_all();
}

bool StepThread::is_idle() {
  const std::lock_guard lock(mutex_);
  return !is_working_ && jobs_.empty();
}

void StepThread::cancel() noexcept {
  std::unique_lock lock(mutex_);
  jobs_.clear();
  changed_.wait(lock, [this] { return !is_working_; });
  has_failed_ = false;
}

std::chrono::nanoseconds StepThread::take_busy_time() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(busy_, {});
}

void StepThread::work() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || (!jobs_.empty() && !has_failed_); });
    if (is_over_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    is_working_ = true;
    lock.unlock();
    const auto began = Clock::now();
    auto done = caught(job.work);
    const auto ended = Clock::now();
    lock.lock();
    is_working_ = false;
    busy_ += ended - began;
    has_failed_ = !done;
    ended_.tell({job.item, done ? std::optional<Error>() : std::move(done).error(), began, ended});
    changed_.notify_all();  // cancel()
  }
}

void copy_rect(const LocalRect& to, const LocalRect& from) noexcept {
  if (to.row_bytes == 0) return;
  if (to.stride == to.row_bytes && from.stride == to.row_bytes) {
    std::memmove(to.data, from.data, to.rows * to.row_bytes);
    return;
  }
  for (Bytes row = 0; row < to.rows; ++row)
    std::memmove(to.data + row * to.stride, from.data + row * from.stride, to.row_bytes);
}

void fill_rect(const LocalRect& to) noexcept {
  if (to.row_bytes == 0) return;
  for (Bytes row = 0; row < to.rows; ++row) std::memset(to.data + row * to.stride, 0, to.row_bytes);
}

void add_rect(DataType type, const LocalRect& to, const LocalRect& from) noexcept {
  if (type.code == DataType::signed_int)
    return type.bits == 64 ? add_rows<std::uint64_t>(to, from) : add_rows<std::uint32_t>(to, from);
  if (type.code == DataType::bfloat) return add_rows<Bfloat16>(to, from);
  switch (type.bits) {
    case 64:
      return add_rows<double>(to, from);
    case 32:
      return add_rows<float>(to, from);
    default:
      return add_rows<Float16>(to, from);
  }
}

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
  const auto element = static_cast<std::int64_t>(type.bits / kBitsOfByte);
  const LocalRect a = places_.local(step.from);
  const LocalRect b = places_.local(step.other);
  const LocalRect c = places_.local(step.to);
  const auto stride = [&](const LocalRect& rect) {
    return static_cast<std::int64_t>(rect.stride) / element;
  };
  return gemm_->multiply({.type = type,
                          .m = step.to.rect.rows,
                          .n = step.to.rect.cols,
                          .k = step.from.rect.cols,
                          .a = a.data,
                          .a_stride = stride(a),
                          .b = b.data,
                          .b_stride = stride(b),
                          .c = c.data,
                          .c_stride = stride(c),
                          .adds = step.adds});
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
