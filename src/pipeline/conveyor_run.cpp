#include <algorithm>
#include <thread>

#include "pipeline/conveyor.hpp"
#include "pipeline/halt.hpp"

// Many chunks, in order. With several under way one thread feeds and the caller collects; a slot
// goes from one to the other and back under mutex_:
//   I1  collected_ <= fed_ <= collected_ + depth.
//   I2  The feeder writes slot i when fed_ == i and i < collected_ + depth; the collector reads it
//       when collected_ <= i < fed_.
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

Result<void> Conveyor::open(bool is_one_queue, FileLanes files) {
  files_ = std::move(files);
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
    begin(ring, slot);
    if (auto failure = feed(ring, slot)) return failure;
    if (auto failure = take(ring, slot)) return failure;
    if (auto failure = land(slot)) return failure;
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
  if (failure && files_.in != nullptr) files_.in->cancel();  // which the feeder may wait for
  feeder.join();
  return failure;
}

void Conveyor::feed_all(ChunkRing& ring, std::uint64_t end) noexcept {
  Chunk next = next_;  // the collector has not begun: it waits for the first chunk
  Chunk ahead = next;  // what is begun next
  std::unique_lock lock(mutex_);
  while (next.first < end && !feed_failure_) {
    moved_.wait(lock, [&] { return stop_ || next.index < collected_ + ring.depth(); });
    if (stop_) break;
    const std::uint64_t free = collected_ + ring.depth();
    lock.unlock();
    for (; ahead.first < end && ahead.index < free; ahead = after(ring.slot(ahead.index).chunk)) {
      ring.slot(ahead.index).chunk = chunk_at(ahead, ring, end);
      begin(ring, ring.slot(ahead.index));
    }
    ChunkSlot& slot = ring.slot(next.index);
    next = after(slot.chunk);
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
Conveyor::Failure Conveyor::wait_fed(const Chunk& chunk) {
  const Deadline until = limit();
  const std::uint64_t index = chunk.index;
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
                      chunk,
                      ChunkFailure::Stage::host};
}

// Chunks from next_ up to the one that is taken next are being written.
Conveyor::Failure Conveyor::collect_all(ChunkRing& ring, std::uint64_t end) {
  Chunk next = next_;
  Failure failure;
  while (!failure && next_.first < end) {
    const bool is_due =
        next_.index < next.index && (next.first >= end || is_landing_due(ring, next.index));
    failure = is_due ? land_first(ring) : take_next(ring, next, end);
  }
  // What came before the one that failed lands, or is what failed first.
  while (failure && next_.index < failure->chunk.index && next_.index < next.index)
    if (auto earlier = land_first(ring)) return earlier;
  return failure;
}

Conveyor::Failure Conveyor::take_next(ChunkRing& ring, Chunk& next, std::uint64_t end) {
  if (auto failure = wait_fed(chunk_at(next, ring, end))) return failure;
  ChunkSlot& slot = ring.slot(next.index);
  if (auto failure = take(ring, slot)) return failure;
  next = after(slot.chunk);
  return std::nullopt;
}

Conveyor::Failure Conveyor::land_first(ChunkRing& ring) {
  if (auto failure = land(ring.slot(next_.index))) return failure;
  {
    const std::lock_guard lock(mutex_);
    ++collected_;
  }
  moved_.notify_all();
  return std::nullopt;
}

// It costs no waiting, or the feeder wants the slot for what would be waited for otherwise.
bool Conveyor::is_landing_due(ChunkRing& ring, std::uint64_t next) const {
  const auto is_over = [&](Ticket write) { return files_.out->is_over(write); };
  return next >= next_.index + ring.depth() ||
         std::ranges::all_of(ring.slot(next_.index).writes, is_over);
}

void Conveyor::halt() noexcept {
  files_.cancel();
  halt_queues(device_, queues_, options_);
  files_.drain(grace_of(options_));
}

}  // namespace gantry
