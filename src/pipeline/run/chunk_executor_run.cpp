#include <algorithm>
#include <thread>

#include "base/worker_thread.hpp"
#include "pipeline/run/chunk_executor.hpp"
#include "pipeline/run/halt.hpp"

// Many chunks, in order, and how they go from one thread to the other: ChunkExecutor, I1 to I6.
namespace gantry {
namespace {

Chunk after(const Chunk& chunk) noexcept {
  return {chunk.index + 1, chunk.first + chunk.steps, 0};
}

}  // namespace

Result<RunQueues> RunQueues::open(Device& device, bool is_one) {
  RunQueues queues;
  const auto add = [&](QueueRole role) -> Result<DeviceQueue*> {
    GANTRY_ASSIGN(auto queue, device.open_queue(role));
    queues.own.push_back(std::move(queue));
    return queues.own.back().get();
  };
  GANTRY_ASSIGN(queues.compute, add(QueueRole::compute));
  queues.copy_in = queues.copy_out = queues.compute;
  if (is_one) return queues;
  GANTRY_ASSIGN(queues.copy_in, add(QueueRole::copy_in));
  GANTRY_ASSIGN(queues.copy_out, add(QueueRole::copy_out));
  return queues;
}

Result<void> ChunkExecutor::open(bool is_one_queue, FileLanes files) {
  files_ = std::move(files);
  GANTRY_ASSIGN(queues_, RunQueues::open(device_, is_one_queue));
  GANTRY_ASSIGN(submit_copier_, HostCopier::make(options_.copier.get()));
  GANTRY_ASSIGN(complete_copier_, HostCopier::make(options_.copier.get()));
  return {};
}

Deadline ChunkExecutor::limit() const noexcept {
  return limit_of(options_);
}

Chunk ChunkExecutor::chunk_at(Chunk next, const ChunkRing& ring, std::uint64_t end) const noexcept {
  const std::uint64_t border = next.first < cut_.head   ? cut_.head
                               : next.first < cut_.tail ? cut_.tail
                                                        : end;
  next.steps = std::min(ring.chunk_steps(), std::min(border, end) - next.first);
  return next;
}

ChunkExecutor::Failure ChunkExecutor::run_one_by_one(ChunkRing& ring, std::uint64_t steps) {
  const std::uint64_t end = next_.first + steps;
  while (next_.first < end) {
    ChunkSlot& slot = ring.slot(next_.index);
    slot.chunk = chunk_at(next_, ring, end);
    begin(ring, slot);
    if (auto failure = submit(ring, slot)) return failure;
    if (auto failure = complete(ring, slot)) return failure;
    if (auto failure = commit(slot)) return failure;
  }
  return std::nullopt;
}

ChunkExecutor::Failure ChunkExecutor::run_overlapped(ChunkRing& ring, std::uint64_t steps) {
  const std::uint64_t end = next_.first + steps;
  submitted_ = completed_ = next_.index;
  stop_ = all_submitted_ = false;
  submit_failure_.reset();
  auto submitter = start_thread("a thread", [&] { submit_all(ring, end); });
  if (!submitter)
    return ChunkFailure{std::move(submitter).error(), chunk_at(next_, ring, end),
                        ChunkFailure::Stage::host};
  auto failure = complete_all(ring, end);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  moved_.notify_all();
  if (failure && files_.in != nullptr) files_.in->cancel();  // the submitter may wait for it
  submitter->join();
  GANTRY_CHECK_INVARIANTS(*this, ring);
  return failure;
}

void ChunkExecutor::submit_all(ChunkRing& ring, std::uint64_t end) noexcept {
  Chunk next = next_;  // the completer has not begun: it waits for the first chunk
  Chunk ahead = next;  // the chunk to begin next
  std::unique_lock lock(mutex_);
  while (next.first < end && !submit_failure_) {
    moved_.wait(lock, [&] { return stop_ || next.index < completed_ + ring.depth(); });
    if (stop_) break;
    const std::uint64_t free = completed_ + ring.depth();
    lock.unlock();
    for (; ahead.first < end && ahead.index < free; ahead = after(ring.slot(ahead.index).chunk)) {
      ring.slot(ahead.index).chunk = chunk_at(ahead, ring, end);
      begin(ring, ring.slot(ahead.index));
    }
    ChunkSlot& slot = ring.slot(next.index);
    next = after(slot.chunk);
    auto failure = submit(ring, slot);
    lock.lock();
    if (failure)
      submit_failure_ = std::move(failure);
    else
      ++submitted_;
    GANTRY_CHECK_INVARIANTS(*this, ring);
    moved_.notify_all();
  }
  all_submitted_ = true;
  moved_.notify_all();
}

// Nothing: the chunk is on its way.
ChunkExecutor::Failure ChunkExecutor::wait_submitted(const Chunk& chunk) {
  const Deadline until = limit();
  const std::uint64_t index = chunk.index;
  std::unique_lock lock(mutex_);
  const auto is_known = [&] { return submitted_ > index || submit_failure_ || all_submitted_; };
  while (!is_known() && !until.passed()) {
    if (until.is_never())
      moved_.wait(lock);
    else
      moved_.wait_for(lock, until.left());
  }
  if (submitted_ > index) return std::nullopt;
  if (submit_failure_) return submit_failure_;
  return ChunkFailure{{Code::timed_out, "it was not read when its time was up",
                       "allow more (PipelineOptions::stall_limit, deadline)"},
                      chunk,
                      ChunkFailure::Stage::host};
}

// Chunks from next_ up to the one that is taken next are being written.
ChunkExecutor::Failure ChunkExecutor::complete_all(ChunkRing& ring, std::uint64_t end) {
  Chunk next = next_;
  Failure failure;
  while (!failure && next_.first < end) {
    const bool is_due =
        next_.index < next.index && (next.first >= end || is_commit_due(ring, next.index));
    failure = is_due ? commit_first(ring) : complete_next(ring, next, end);
  }
  // Chunks before the one that failed are committed, or one of them failed first.
  while (failure && next_.index < failure->chunk.index && next_.index < next.index)
    if (auto earlier = commit_first(ring)) return earlier;
  return failure;
}

ChunkExecutor::Failure ChunkExecutor::complete_next(ChunkRing& ring, Chunk& next,
                                                    std::uint64_t end) {
  if (auto failure = wait_submitted(chunk_at(next, ring, end))) return failure;
  ChunkSlot& slot = ring.slot(next.index);
  if (auto failure = complete(ring, slot)) return failure;
  next = after(slot.chunk);
  return std::nullopt;
}

ChunkExecutor::Failure ChunkExecutor::commit_first(ChunkRing& ring) {
  if (auto failure = commit(ring.slot(next_.index))) return failure;
  {
    const std::lock_guard lock(mutex_);
    ++completed_;
    GANTRY_DEBUG_ASSERT(next_.index == completed_);  // I5
    GANTRY_CHECK_INVARIANTS(*this, ring);
  }
  moved_.notify_all();
  return std::nullopt;
}

// True if it needs no waiting, or if the submitter wants the slot and would have to wait anyway.
bool ChunkExecutor::is_commit_due(ChunkRing& ring, std::uint64_t next) const {
  const auto is_over = [&](Ticket write) { return files_.out->is_over(write); };
  return next >= next_.index + ring.depth() ||
         std::ranges::all_of(ring.slot(next_.index).writes, is_over);
}

void ChunkExecutor::halt() noexcept {
  files_.cancel();
  halt_queues(device_, queues_, options_);
  files_.drain(grace_of(options_));
}

#ifndef NDEBUG
void ChunkExecutor::check_invariants(const ChunkRing& ring) const noexcept {
  GANTRY_ASSERT(completed_ <= submitted_ && submitted_ <= completed_ + ring.depth());  // I1
  std::uint64_t first = completed_ == submitted_ ? 0 : ring.slot(completed_).chunk.first;
  for (std::uint64_t index = completed_; index < submitted_; ++index) {
    const Chunk& chunk = ring.slot(index).chunk;
    GANTRY_ASSERT(chunk.index == index);                                  // I2
    GANTRY_ASSERT(chunk.steps > 0 && chunk.steps <= ring.chunk_steps());  // I3
    GANTRY_ASSERT(chunk.first == first);                                  // I3
    first += chunk.steps;
  }
  GANTRY_ASSERT(!submit_failure_ || submit_failure_->chunk.index == submitted_);  // I4
}
#endif

}  // namespace gantry
