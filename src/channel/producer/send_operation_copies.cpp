#include <algorithm>

#include "base/clock.hpp"
#include "base/memfd.hpp"
#include "channel/producer/send_operation.hpp"
#include "channel/wire/step.hpp"

// How a message's bytes get to their place.
namespace gantry {

// By pwrite(2): a writable mapping would keep the kernel from sealing.
Result<std::shared_ptr<const Region>> SendOperation::copy_sealed() const {
  GANTRY_ASSIGN(Fd memory, make_memfd("gantry-immutable", std::max<Bytes>(packed_, 1)));
  Bytes packed_at = 0;
  const std::uint64_t started = read_ticks();
  for (const Draft::Part& part : parts_) {
    packed_at = round_up(packed_at, Pool::kLineAlignment);
    auto written = plan_of(part) != nullptr ? write_converted(memory.get(), packed_at, part)
                                            : write_at(memory.get(), part.bytes, packed_at);
    if (!written) return tl::unexpected(core_.named(std::move(written).error()));
    packed_at += size_of(part);
  }
  const std::uint64_t took = read_ticks() - started;
  core_.counters->copy(CopyEngine::inline_, total_, took);
  GANTRY_PROBE(copy, core_.name.c_str(), total_, static_cast<int>(CopyEngine::inline_), took);
  if (trace::is_on()) [[unlikely]]
    note_copied(started, took, total_, parts_.size());
  GANTRY_TRY(seal(memory.get(), kSizeSeals | F_SEAL_FUTURE_WRITE | F_SEAL_WRITE));
  GANTRY_ASSIGN(Region region, Region::import(memory.release(), std::max<Bytes>(packed_, 1)));
  return std::make_shared<const Region>(std::move(region));
}

// What is to be sealed cannot be mapped for writing: it is made in private memory, piece by piece.
Result<void> SendOperation::write_converted(int memory, Bytes at, const Draft::Part& part) const {
  constexpr Bytes kPiece = Bytes{256} << 10;
  const ReshapePlan& plan = *plan_of(part);
  const Bytes size = plan.destination_bytes();
  std::vector<std::byte> made(std::min(kPiece, size));
  for (Bytes done = 0; done < size; done += made.size()) {
    const ByteSpan piece = ByteSpan(made).first(std::min(kPiece, size - done));
    GANTRY_TRY(copy_by(lane_, Move::reshape(piece, part.bytes, plan, done)));
    GANTRY_TRY(write_at(memory, piece, at + done));
  }
  return {};
}

Result<void> SendOperation::copy_parts() {
  if (mode_ == SendMode::immutable) return {};  // it is there
  Bytes packed_at = 0;
  std::uint64_t ticks = 0;
  for (const Draft::Part& part : parts_) {
    if (!is_copied(part)) {
      if (mode_ != SendMode::whole) landed(size_of(part));
      continue;
    }
    packed_at = round_up(packed_at, Pool::kLineAlignment);
    const Bytes size = size_of(part);
    if (size == 0) continue;
    const std::uint64_t started = read_ticks();
    const ChunkPlan plan = plan_for(slot_->block.bytes().subspan(packed_at), part);
    GANTRY_TRY(goes_by_two() ? copy_by_two(plan) : copy_chunks(plan));
    packed_at += size;
    const std::uint64_t took = read_ticks() - started;
    core_.counters->copy(engine_, size, took);
    GANTRY_PROBE(copy, core_.name.c_str(), size, static_cast<int>(engine_), took);
    if (trace::is_on()) [[unlikely]]
      note_copied(started, took, size, plan.count());
    ticks += took;
  }
  if (mode_ != SendMode::streamed) copy_ticks_ = ticks;
  return {};
}

// Nobody else publishes meanwhile: it will have the next number, unless it was published already.
void SendOperation::note_copied(std::uint64_t started, std::uint64_t took, Bytes bytes,
                                std::uint64_t chunks) const noexcept {
  const std::uint64_t number =
      message_.header.number != 0 ? message_.header.number : core_.consumers->published() + 1;
  core_.trace.copied(started, took, number, bytes, engine_, chunks);
}

// `to`: from the part's place to the end; for a streamed message the window. A message that goes
// whole is a single chunk, unless two threads copy it.
ChunkPlan SendOperation::plan_for(ByteSpan to, const Draft::Part& part) const noexcept {
  ChunkPlan plan{to, part.bytes, chunk_bytes_, window_bytes_, CacheUse::automatic, plan_of(part)};
  const Bytes size = plan.size();
  if (mode_ == SendMode::whole) plan.chunk = goes_by_two() ? kLargestChunk : size;
  if (mode_ == SendMode::streamed) plan.cache = CacheUse::reader_soon;
  // A single chunk would always stay in the cache, where the next ones push it out again.
  const bool lies_together =
      mode_ == SendMode::whole || (mode_ == SendMode::pipelined && !goes_by_two());
  if (plan.chunk < size && lies_together) plan.cache = cache_uses_.of(lane_, size);
  return plan;
}

Result<void> SendOperation::copy_chunks(const ChunkPlan& plan) {
  for (std::uint64_t chunk = 0; chunk < plan.count(); ++chunk) {
    if (mode_ == SendMode::streamed) {
      GANTRY_TRY(await_window(chunk));
      if (unwanted_) return {};
    }
    const Move move = plan.move_of(chunk);
    GANTRY_TRY(copy(move));
    GANTRY_STEP(chunk_copied);
    if (mode_ != SendMode::whole) landed(move.bytes);
  }
  return {};
}

// Waits until everyone has passed the chunk in whose place `chunk` goes. Consumers may drop the
// message half-way; a message that nobody wants is not copied.
Result<void> SendOperation::await_window(std::uint64_t chunk) {
  const std::uint64_t window = window_bytes_ / chunk_bytes_;
  if (chunk < passed_ + window) return {};
  ProducerCore::Lock held = core_.lock();
  std::optional<std::uint64_t> passed;
  const auto is_open = [&] {
    passed = core_.consumers->chunks_passed_of(*slot_);
    return !passed || chunk < *passed + window;
  };
  const auto why = [&]() -> WaitReason {
    const std::string what = fmt::format("chunk {} of the streamed message", chunk - window + 1);
    return {WaitReason::Kind::window, fmt::format("for a consumer to take {}", what),
            fmt::format("a consumer did not take {} in time", what)};
  };
  GANTRY_TRY(gate_.wait_until(held, options_.deadline, is_open, why));
  GANTRY_STEP(window_awaited);
  unwanted_ = !passed;
  if (passed) passed_ = *passed;
  if (passed) return {};
  GANTRY_TRY(gate_.check_consumers());
  if (!slot_->was_missed) return {};
  return tl::unexpected(core_.named(  // another consumer came since
      {Code::peer_gone, "the consumer left before it took the streamed message", "send it again"}));
}

Result<void> SendOperation::copy(Move move) {
  auto copied = copy_by(lane_, move);
  if (!copied) return tl::unexpected(core_.named(std::move(copied).error()));
  engine_ = copied->engine;
  last_copy_ = {move.destination, move.source,   move.bytes,        copied_, mode_,
                copied->engine,   copied->cache, plan_of_move(move)};
  if (copied->helper_cpu_ns != 0) core_.metrics.meter()->cpu(copied->helper_cpu_ns);
  return {};
}

std::optional<ReshapePlan> plan_of_move(const Move& move) {
  if (move.kind != Move::Kind::reshape) return std::nullopt;
  return *move.plan;
}

Result<Completion> copy_by(Lane& lane, Move move) {
  Completion completion;
  move.completion = &completion;
  GANTRY_ASSIGN(const Ticket ticket, lane.submit(move, SubmitMode::synchronous));
  if (lane.wait(ticket) == Outcome::done) return completion;
  return tl::unexpected(copy_error(completion, move.bytes));
}

Error copy_error(const Completion& completion, Bytes bytes) {
  const bool theirs = completion.cause == Cause::unreadable;
  return {theirs ? Code::invalid_argument : Code::system,
          fmt::format("copying {} bytes: the {} engine stopped after {}: {} at {:#x}", bytes,
                      to_string(completion.engine), completion.bytes_done,
                      to_string(completion.cause), completion.fault_address),
          theirs ? "the payload must stay mapped, and its file as long, until it was sent" : ""};
}

}  // namespace gantry
