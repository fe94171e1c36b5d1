#include <algorithm>
#include <thread>

#include "pipeline/conveyor.hpp"
#include "pipeline/halt.hpp"

// Many chunks, in order. With several under way one thread feeds and the caller collects; a slot
// goes from one to the other and back under mutex_:
//   I1  collected_ <= fed_ <= collected_ + depth.
//   I2  The feeder writes slot i when fed_ == i and i < collected_ + depth; the collector reads it
//       when i < fed_ and i == collected_.
namespace gantry {

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

Result<void> Conveyor::open(bool is_one_queue) {
  GANTRY_ASSIGN(queues_, RunQueues::open(device_, is_one_queue));
  GANTRY_ASSIGN(feeder_copier_, HostCopier::make(options_.copier.get()));
  GANTRY_ASSIGN(collector_copier_, HostCopier::make(options_.copier.get()));
  return {};
}

Deadline Conveyor::limit() const noexcept {
  return limit_of(options_);
}

Chunk Conveyor::chunk_at(Chunk next, const ChunkRing& ring, std::uint64_t end) const noexcept {
  const std::uint64_t border = next.first < cut_.head   ? cut_.head
                               : next.first < cut_.tail ? cut_.tail
                                                        : end;
  next.steps = std::min(ring.chunk_steps(), std::min(border, end) - next.first);
  return next;
}

Conveyor::Failure Conveyor::run_one_by_one(ChunkRing& ring, std::uint64_t steps) {
  const std::uint64_t end = next_.first + steps;
  while (next_.first < end) {
    ChunkSlot& slot = ring.slot(next_.index);
    slot.chunk = chunk_at(next_, ring, end);
    if (auto failure = feed(ring, slot)) return failure;
    if (auto failure = collect(slot)) return failure;
  }
  return std::nullopt;
}

Conveyor::Failure Conveyor::run_overlapped(ChunkRing& ring, std::uint64_t steps) {
  const std::uint64_t end = next_.first + steps;
  fed_ = collected_ = next_.index;
  stop_ = is_fed_ = false;
  feed_failure_.reset();
  std::thread feeder;
  try {
    feeder = std::thread([&] { feed_all(ring, end); });
  } catch (const std::system_error& error) {
    return ChunkFailure{{Code::system, fmt::format("starting a thread: {}", error.what()),
                         "raise the limit of processes (ulimit -u)"},
                        chunk_at(next_, ring, end),
                        ChunkFailure::Stage::host};
  }
  auto failure = collect_all(ring, end);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  moved_.notify_all();
  feeder.join();
  return failure;
}

void Conveyor::feed_all(ChunkRing& ring, std::uint64_t end) noexcept {
  Chunk next = next_;  // the collector has not begun: it waits for the first chunk
  std::unique_lock lock(mutex_);
  while (next.first < end && !feed_failure_) {
    moved_.wait(lock, [&] { return stop_ || fed_ < collected_ + ring.depth(); });
    if (stop_) break;
    lock.unlock();
    ChunkSlot& slot = ring.slot(next.index);
    slot.chunk = chunk_at(next, ring, end);
    next = {slot.chunk.index + 1, slot.chunk.first + slot.chunk.steps, 0};
    auto failure = feed(ring, slot);
    lock.lock();
    if (failure)
      feed_failure_ = std::move(failure);
    else
      ++fed_;
    moved_.notify_all();
  }
  is_fed_ = true;
  moved_.notify_all();
}

// Nothing: the chunk is on its way.
Conveyor::Failure Conveyor::wait_fed(std::uint64_t index) {
  const Deadline until = limit();
  std::unique_lock lock(mutex_);
  const auto is_known = [&] { return fed_ > index || feed_failure_ || is_fed_; };
  while (!is_known() && !until.passed()) {
    if (until.is_never())
      moved_.wait(lock);
    else
      moved_.wait_for(lock, until.left());
  }
  if (fed_ > index) return std::nullopt;
  if (feed_failure_) return feed_failure_;
  return ChunkFailure{{Code::timed_out, "it was not read when its time was up",
                       "allow more (PipelineOptions::stall_limit, deadline)"},
                      next_,
                      ChunkFailure::Stage::host};
}

Conveyor::Failure Conveyor::collect_all(ChunkRing& ring, std::uint64_t end) {
  while (next_.first < end) {
    if (auto failure = wait_fed(next_.index)) {
      if (failure->chunk.steps == 0) failure->chunk = chunk_at(next_, ring, end);
      return failure;
    }
    if (auto failure = collect(ring.slot(next_.index))) return failure;
    {
      const std::lock_guard lock(mutex_);
      ++collected_;
    }
    moved_.notify_all();
  }
  return std::nullopt;
}

void Conveyor::halt() noexcept {
  halt_queues(device_, queues_, options_);
}

}  // namespace gantry
