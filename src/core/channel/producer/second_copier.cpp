#include "core/channel/producer/second_copier.hpp"

#include "core/base/clock.hpp"
#include "core/base/futex.hpp"
#include "core/base/os/disown.hpp"
#include "core/base/os/numa_nodes.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/channel/wire/waiter.hpp"

namespace gantry {
namespace {

// How long it looks for another chunk. A consumer that takes longer needs no second copier.
constexpr std::chrono::microseconds kLinger{20};

}  // namespace

Move ChunkPlan::move_of(std::uint64_t index) const noexcept {
  const Bytes at = index * chunk;
  const Bytes size = std::min(chunk, this->size() - at);
  const ByteSpan place = to.subspan(window == 0 ? at : at % window, size);
  Move move = reshape != nullptr ? Move::reshape(place, from, *reshape, at)
                                 : Move::copy(place, from.subspan(at, size));
  move.cache = cache;
  return move;
}

SecondCopier::~SecondCopier() {
  if (!thread_.joinable()) return;
  if (!fork_guard_.is_this()) {
    disown(std::move(thread_));
    return;
  }
  stopping_.store(true, std::memory_order_relaxed);  // a request; no data comes with it
  state_.store(invited, std::memory_order_seq_cst);  // and an invitation to see it [S]
  futex_wake(state_);
  thread_.join();
}

// ---- the owner -----------------------------------------------------------------------------

void SecondCopier::start() noexcept {
  tried_ = true;
  if (auto started = start_thread("a thread", [this] { serve(); })) thread_ = std::move(*started);
}  // else the owner copies alone

void SecondCopier::invite(SharedCopy& copy) noexcept {
  // if it came again it would put down a chunk that never came
  if (copy.chunks.has_failed()) return;
  if (state_.load(std::memory_order_acquire) != idle) return;  // I1 [V]
  if (!tried_) start();
  copy_ = &copy;
  state_.store(invited, std::memory_order_seq_cst);                 // I1 [V], I2 [S]
  if (sleeps_.load(std::memory_order_seq_cst)) futex_wake(state_);  // I2 [S]
}

void SecondCopier::withdraw() noexcept {
  std::uint32_t expected = invited;
  if (state_.compare_exchange_strong(expected, idle, std::memory_order_acquire)) return;  // I1 [V]
  if (expected == idle) return;
  copy_->chunks.stop();
  const auto is_gone = [this] {
    return state_.load(std::memory_order_acquire) == idle;  // I1 [V]
  };
  while (!poll_for(spin_, Deadline::never(), is_gone)) std::this_thread::yield();
}

// ---- the second ----------------------------------------------------------------------------

void SecondCopier::serve() {
  bind_this_thread(cpus_);
  while (!stopping_.load(std::memory_order_relaxed)) {
    std::uint32_t expected = invited;
    if (state_.compare_exchange_strong(expected, there, std::memory_order_acquire)) {  // I1 [V]
      if (!stopping_.load(std::memory_order_relaxed)) help(*copy_);
      state_.store(idle, std::memory_order_release);  // I1 [V]
      continue;
    }
    const auto news = [this] { return state_.load(std::memory_order_seq_cst) == invited; };
    const SpinTime::Wait wait(idle_spin_);
    if (poll_for(idle_spin_.now(), Deadline::never(), news)) continue;
    sleeps_.store(true, std::memory_order_seq_cst);   // I2 [S]
    if (!news()) futex_wait(state_, idle);            // I2 [S]
    sleeps_.store(false, std::memory_order_relaxed);  // one wake too many harms nobody
  }
}

void SecondCopier::help(SharedCopy& copy) {
  const std::uint64_t began = thread_cpu_ns();
  const auto news = [&copy] { return copy.chunks.left() != 0 || copy.chunks.is_stopped(); };
  do {
    for (auto chunk = copy.chunks.exchange(); chunk; chunk = copy.chunks.exchange())
      if (!copies(copy, *chunk)) {
        copy.chunks.fail();
        break;
      }
  } while (!copy.chunks.has_failed() && !copy.chunks.is_stopped() &&
           poll_for(kLinger, Deadline::never(), news));
  copy.cpu_ns += thread_cpu_ns() - began;
}

bool SecondCopier::copies(SharedCopy& copy, std::uint32_t chunk) {
  Completion completion;
  Move move = copy.plan.move_of(chunk);
  move.completion = &completion;
  const auto ticket = lane_->submit(move, SubmitMode::synchronous);
  if (ticket && lane_->wait(*ticket) == Outcome::done) return true;
  if (!ticket) completion.cause = Cause::cancelled;  // the engine was stopped
  copy.failure = completion;
  return false;
}

}  // namespace gantry
