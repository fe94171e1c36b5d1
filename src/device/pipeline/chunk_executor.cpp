#include "device/pipeline/chunk_executor.hpp"

#include <algorithm>
#include <thread>

#include "core/base/os/worker_thread.hpp"
#include "device/pipeline/device_run.hpp"
#include "device/pipeline/job_check.hpp"

namespace gantry {

// ---- one chunk, from its sources through its slot to its sinks ---------------------------------

namespace {

using Argument = PipelineJob::Argument;
using Kind = Argument::Kind;

ConstByteSpan bytes_of(const RunArray& array, const ChunkExtent& extent) noexcept {
  switch (extent.kind) {
    case ChunkExtent::Kind::source:
      return array.argument->source.bytes.subspan(extent.from, extent.size);
    case ChunkExtent::Kind::first_step:
      return ConstByteSpan(array.first_step).first(extent.size);
    case ChunkExtent::Kind::last_step:
      return ConstByteSpan(array.last_step).first(extent.size);
    case ChunkExtent::Kind::zero:
      break;
  }
  return {};
}

bool is_of_file(const Argument& argument) noexcept {
  return argument.reads() && argument.source.kind == PipelineSource::Kind::file;
}

/// Fills everything except what comes from a file.
Result<void> fill_host(const RunArray& array, const std::vector<ChunkExtent>& extents,
                       ByteSpan host, HostCopier& copier) {
  const PipelineSource& source = array.argument->source;
  for (const ChunkExtent& extent : extents) {
    const ByteSpan to = host.subspan(extent.at, extent.size);
    if (extent.kind == ChunkExtent::Kind::zero)
      std::fill(to.begin(), to.end(), std::byte{});
    else if (extent.kind == ChunkExtent::Kind::source &&
             source.kind == PipelineSource::Kind::reader)
      GANTRY_TRY(source.read(extent.from, to));
    else if (extent.kind == ChunkExtent::Kind::source && source.plan)
      GANTRY_TRY(copier.reshape(to, source.bytes, *source.plan, extent.from));
    else if (extent.kind != ChunkExtent::Kind::source || source.kind != PipelineSource::Kind::file)
      GANTRY_TRY(copier.copy(to, bytes_of(array, extent)));
  }
  return {};
}

// Records when the host did `part`, or when it did the parts that include it.
template <class Part>
Result<void> timed(DeviceTiming& when, const Part& part) {
  if (when.began == DeviceTiming::Time{}) when.submitted = when.began = Deadline::Clock::now();
  auto done = part();
  when.ended = Deadline::Clock::now();
  return done;
}

bool brings_back(const Argument& argument) noexcept {
  return argument.writes() || argument.kind == Kind::reduction;
}

/// The place of a chunk's results.
ByteSpan back_to(const RunArray& array, const ChunkSlot& slot, std::size_t index) noexcept {
  const Bytes size = slot_bytes(array, slot.chunk.steps);
  const ByteSpan host = slot.arrays[index].host;
  if (!host.empty()) return host.first(size);
  return array.argument->sink.bytes.subspan(slot.chunk.first * array.argument->step_bytes, size);
}

Chunk after(const Chunk& chunk) noexcept {
  return {chunk.index + 1, chunk.first + chunk.steps, 0};
}

}  // namespace

// ---- on its way ----------------------------------------------------------------------------

// Chunks before it are still on their way: they are to report their failures first.
void ChunkExecutor::begin(const ChunkRing& ring, ChunkSlot& slot) noexcept {
  slot.copy_in = slot.compute = slot.copy_out = {};
  slot.stage_in = slot.stage_out = {};
  slot.reads.clear();
  slot.writes.clear();
  slot.begin_error.reset();
  if (files_.in == nullptr) return;
  if (auto begun = caught([&] { return begin_reads(ring, slot); }); !begun)
    slot.begin_error = std::move(begun).error();
}

Result<void> ChunkExecutor::begin_reads(const ChunkRing& ring, ChunkSlot& slot) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Argument& argument = *arrays_[i].argument;
    if (!is_of_file(argument)) continue;
    if (slot.stage_in.began == DeviceTiming::Time{})
      slot.stage_in.submitted = slot.stage_in.began = Deadline::Clock::now();
    for (const ChunkExtent& extent : extents_of(argument, slot.chunk, job_.steps())) {
      if (extent.kind != ChunkExtent::Kind::source) continue;
      const ByteSpan to = slot.arrays[i].host.subspan(extent.at, extent.size);
      GANTRY_ASSIGN(const Ticket read,
                    files_.in->submit(read_of(argument.source, extent.from, to, ring.keep())));
      slot.reads.push_back(read);
    }
  }
  return {};
}

ChunkExecutor::Failure ChunkExecutor::submit(ChunkRing& ring, ChunkSlot& slot) {
  using Stage = ChunkFailure::Stage;
  Stage stage = Stage::ends;
  const Result<void> submitted = caught([&]() -> Result<void> {
    if (slot.begin_error) return tl::unexpected(*slot.begin_error);
    stage = Stage::host;
    GANTRY_TRY(place(slot));
    stage = Stage::ends;
    GANTRY_TRY(stage_in(slot));
    stage = Stage::copy_in;
    GANTRY_TRY(submit_in(ring, slot));
    stage = Stage::compute;
    GANTRY_TRY(submit_compute(slot));
    GANTRY_TRY(submit_shared_out(slot));
    stage = Stage::copy_out;
    return submit_out(ring, slot);
  });
  if (submitted) return std::nullopt;
  return ChunkFailure{submitted.error(), slot.chunk, stage};
}

// Places shared arrays: on the memory itself, or on a buffer of its own for a chunk that cannot be
// shared.
Result<void> ChunkExecutor::place(ChunkSlot& slot) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Argument& argument = *arrays_[i].argument;
    if (arrays_[i].staging != Staging::shared || argument.kind == Kind::broadcast) continue;
    ChunkSlot::Array& here = slot.arrays[i];
    here.buffer = {};
    const ByteSpan memory =
        shared_memory(argument, slot.chunk, job_.steps(), device_.facts().in_place_alignment);
    here.is_over = !memory.empty();
    if (here.is_over) {
      GANTRY_ASSIGN(here.buffer, device_.over(memory, argument.writes() ? argument.sink.held
                                                                        : argument.source.held));
    } else {
      GANTRY_ASSIGN(here.buffer, device_.allocate(buffer_bytes(argument, slot.chunk.steps)));
    }
  }
  return {};
}

Result<void> ChunkExecutor::stage_in(ChunkSlot& slot) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Argument& argument = *arrays_[i].argument;
    if (!argument.reads() || slot.arrays[i].host.empty()) continue;
    GANTRY_TRY(timed(slot.stage_in, [&] {
      return fill_host(arrays_[i], extents_of(argument, slot.chunk, job_.steps()),
                       slot.arrays[i].host, submit_copier_);
    }));
  }
  if (slot.reads.empty()) return {};
  // Its turn began when the one before had been read.
  slot.stage_in.began = std::max(slot.stage_in.began, read_until_);
  const Deadline until = limit_of(options_);
  for (const Ticket read : slot.reads) GANTRY_TRY(files_.in->wait(read, until));
  slot.stage_in.ended = read_until_ = Deadline::Clock::now();
  return {};
}

Result<void> ChunkExecutor::submit_in(const ChunkRing& ring, ChunkSlot& slot) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Argument& argument = *arrays_[i].argument;
    if (!argument.reads()) continue;
    const Bytes size = buffer_bytes(argument, slot.chunk.steps);
    bytes_in_ += size;
    if (slot.arrays[i].host.empty() && slot.arrays[i].is_over) continue;
    if (slot.arrays[i].host.empty())
      GANTRY_TRY(submit_in_direct(slot, i));
    else
      GANTRY_TRY(slot.copy_in.add(queues_.copy_in->copy_in(
          slot.arrays[i].buffer, 0, slot.arrays[i].host.first(size), ring.keep())));
  }
  return {};
}

Result<void> ChunkExecutor::submit_in_direct(ChunkSlot& slot, std::size_t index) {
  const RunArray& array = arrays_[index];
  const DeviceBuffer& buffer = slot.arrays[index].buffer;
  for (const ChunkExtent& extent : extents_of(*array.argument, slot.chunk, job_.steps())) {
    auto event = extent.kind == ChunkExtent::Kind::zero
                     ? queues_.copy_in->fill(buffer, extent.at, extent.size, std::byte{})
                     : queues_.copy_in->copy_in(buffer, extent.at, bytes_of(array, extent),
                                                array.argument->source.held);
    GANTRY_TRY(slot.copy_in.add(event));
  }
  return {};
}

Result<void> ChunkExecutor::submit_compute(ChunkSlot& slot) {
  if (queues_.compute != queues_.copy_in) GANTRY_TRY(queues_.compute->wait_for(slot.copy_in.last));
  std::vector<const DeviceBuffer*> buffers;
  buffers.reserve(arrays_.size());
  for (std::size_t i = 0; i < arrays_.size(); ++i)
    buffers.push_back(arrays_[i].argument->kind == Kind::broadcast ? &arrays_[i].whole
                                                                   : &slot.arrays[i].buffer);
  return launch_kernel(*queues_.compute, kernel_, job_, slot.chunk, buffers, slot.compute);
}

// Makes visible what the device wrote in memory that is the host's, too. Nothing moves, so it is a
// part of computing.
Result<void> ChunkExecutor::submit_shared_out(ChunkSlot& slot) {
  for (std::size_t i = 0; i < arrays_.size(); ++i)
    if (slot.arrays[i].is_over && brings_back(*arrays_[i].argument))
      GANTRY_TRY(slot.compute.add(
          queues_.compute->copy_out(slot.arrays[i].buffer, 0, back_to(arrays_[i], slot, i))));
  return {};
}

Result<void> ChunkExecutor::submit_out(const ChunkRing& ring, ChunkSlot& slot) {
  bool is_behind = queues_.copy_out == queues_.compute;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Argument& argument = *arrays_[i].argument;
    if (slot.arrays[i].is_over || !brings_back(argument)) continue;
    if (!is_behind) GANTRY_TRY(queues_.copy_out->wait_for(slot.compute.last));
    is_behind = true;
    KeepAlive keep = slot.arrays[i].host.empty() ? KeepAlive(argument.sink.held) : ring.keep();
    GANTRY_TRY(slot.copy_out.add(queues_.copy_out->copy_out(
        slot.arrays[i].buffer, 0, back_to(arrays_[i], slot, i), std::move(keep))));
  }
  return {};
}

// ---- and back ------------------------------------------------------------------------------

ChunkExecutor::Failure ChunkExecutor::complete(const ChunkRing& ring, ChunkSlot& slot) {
  using Stage = ChunkFailure::Stage;
  const Deadline until = limit_of(options_);
  const Error out_of_time = {Code::timed_out, "it had not ended when its time was up",
                             "allow more (PipelineOptions::stall_limit, deadline)"};
  // Writers and folds may have used up the time of the chunks before.
  if (options_.deadline.passed()) return ChunkFailure{out_of_time, slot.chunk, Stage::ends};
  const std::pair<const ChunkSlot::Stage*, Stage> stages[] = {{&slot.copy_in, Stage::copy_in},
                                                              {&slot.compute, Stage::compute},
                                                              {&slot.copy_out, Stage::copy_out}};
  // The last operation waits for the others: each chunk wakes the thread once, not three times.
  static_cast<void>((slot.copy_out.last ? slot.copy_out : slot.compute).last.wait(until));
  for (const auto& [events, stage] : stages)
    if (auto ended = events->last.wait(until); !ended) {
      if (ended.error().code == Code::timed_out) ended.error() = out_of_time;
      return ChunkFailure{std::move(ended).error(), slot.chunk, stage};
    }
  if (auto taken = caught([&] { return complete_results(ring, slot); }); !taken)
    return ChunkFailure{std::move(taken).error(), slot.chunk, Stage::ends};
  return std::nullopt;
}

Result<void> ChunkExecutor::complete_results(const ChunkRing& ring, ChunkSlot& slot) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Argument& argument = *arrays_[i].argument;
    if (slot.arrays[i].host.empty() || !brings_back(argument)) continue;
    GANTRY_TRY(timed(slot.stage_out, [&] { return complete_result(ring, slot, i); }));
  }
  return {};
}

Result<void> ChunkExecutor::complete_result(const ChunkRing& ring, ChunkSlot& slot,
                                            std::size_t index) {
  const Argument& argument = *arrays_[index].argument;
  const Chunk& chunk = slot.chunk;
  const ByteSpan host = slot.arrays[index].host;
  if (argument.kind == Kind::reduction)
    return fold_partials(argument, host.first(arrays_[index].partials_bytes), chunk);
  const std::uint64_t at = chunk.first * argument.step_bytes;
  const ByteSpan from = host.first(chunk.steps * argument.step_bytes);
  if (argument.sink.kind == PipelineSink::Kind::writer) return argument.sink.write(at, from);
  if (argument.sink.kind != PipelineSink::Kind::file)
    return complete_copier_.copy(argument.sink.bytes.subspan(at, from.size()), from);
  GANTRY_ASSIGN(const Ticket write,
                files_.out->submit(write_of(argument.sink, at, from, ring.keep())));
  slot.writes.push_back(write);
  return {};
}

ChunkExecutor::Failure ChunkExecutor::commit(ChunkSlot& slot) {
  const Deadline until = limit_of(options_);
  for (const Ticket write : slot.writes)
    if (auto written = files_.out->wait(write, until); !written)
      return ChunkFailure{std::move(written).error(), slot.chunk, ChunkFailure::Stage::ends};
  if (!slot.writes.empty()) {
    slot.stage_out.began = std::max(slot.stage_out.began, written_until_);
    slot.stage_out.ended = written_until_ = Deadline::Clock::now();
  }
  count(slot);
  return std::nullopt;
}

void ChunkExecutor::count(const ChunkSlot& slot) {
  GANTRY_DEBUG_ASSERT(slot.chunk.index == next_.index && slot.chunk.first == next_.first);  // I5
  times_ = {slot.chunk,    slot.copy_in.timing(), slot.compute.timing(), slot.copy_out.timing(),
            slot.stage_in, slot.stage_out};
  busy_in_ += times_.copy_in.span();
  busy_compute_ += times_.compute.span();
  busy_out_ += times_.copy_out.span();
  for (const RunArray& array : arrays_)
    if (array.argument->writes()) bytes_out_ += slot.chunk.steps * array.argument->step_bytes;
  if (options_.keep_timeline) timeline_.push_back(times_);
  next_.first += slot.chunk.steps;
  ++next_.index;
  GANTRY_DEBUG_ASSERT(!options_.keep_timeline || timeline_.size() == next_.index);  // I6
}

void ChunkExecutor::report(PipelineReport& report) const {
  report.copy_in = busy_in_;
  report.compute = busy_compute_;
  report.copy_out = busy_out_;
  report.bytes_in += bytes_in_;
  report.bytes_out = bytes_out_;
  report.timeline = timeline_;
}

// Many chunks, in order, and how they go from one thread to the other: ChunkExecutor, I1 to I6.

Result<void> ChunkExecutor::open(bool is_one_queue, FileLanes files) {
  files_ = std::move(files);
  GANTRY_ASSIGN(queues_, RunQueues::open(device_, is_one_queue));
  GANTRY_ASSIGN(submit_copier_, HostCopier::make(options_.copier.get()));
  GANTRY_ASSIGN(complete_copier_, HostCopier::make(options_.copier.get()));
  return {};
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
  const Deadline until = limit_of(options_);
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
