#include "base/clock.hpp"
#include "channel/producer/send_operation.hpp"
#include "channel/wire/step.hpp"

// The caller and one more thread copy a large payload; they take its chunks in turn. Only the
// caller tells the consumers, so what has landed has one writer.
namespace gantry {

Result<void> SendOperation::copy_by_two(const ChunkPlan& plan) {
  SharedCopy shared(plan);
  auto copied = take_turns(shared);
  second_->withdraw();  // before anything that it may touch goes
  if (shared.cpu_ns != 0) core_.metrics.meter()->cpu(shared.cpu_ns);
  return copied;
}

Result<void> SendOperation::take_turns(SharedCopy& shared) {
  SharedChunks& chunks = shared.chunks;
  const std::uint64_t count = shared.plan.count();
  const std::uint64_t window = shared.plan.window == 0 ? count : window_bytes_ / chunk_bytes_;
  std::uint64_t told = 0;
  chunks.allow(passed_ + window);
  while (told < count) {
    if (chunks.has_failed()) return await_second(shared);
    if (chunks.left() > 1) second_->invite(shared);
    if (const auto mine = chunks.take()) {
      GANTRY_TRY(copy(shared.plan.move_of(*mine)));
      GANTRY_STEP(chunk_copied);
      tell(shared, told);
      continue;
    }
    GANTRY_TRY(await_second(shared));
    tell(shared, told);
    if (told == count) break;
    GANTRY_TRY(await_window(told));
    if (unwanted_) return {};
    chunks.allow(passed_ + window);
  }
  return {};
}

// It ends soon: a chunk takes microseconds, unless the thread has lost its CPU.
Result<void> SendOperation::await_second(SharedCopy& shared) {
  const auto is_done = [&shared] { return shared.chunks.second_is_done(); };
  while (!poll_for(core_.options.spin, Deadline::never(), is_done)) std::this_thread::yield();
  if (!shared.chunks.has_failed()) return {};
  return tl::unexpected(core_.named(copy_error(shared.failure, shared.plan.chunk)));
}

// Tells how much is there from the front on; for a message that goes whole only when all is.
void SendOperation::tell(const SharedCopy& shared, std::uint64_t& told) {
  const std::uint64_t there = shared.chunks.prefix();
  const Bytes size = shared.plan.size();
  if (mode_ != SendMode::whole && there > told)
    landed(std::min<Bytes>(there * shared.plan.chunk, size) -
           std::min<Bytes>(told * shared.plan.chunk, size));
  told = there;
}

}  // namespace gantry
