#include "image/load/load_worker.hpp"

#include "base/result.hpp"
#include "image/tables.hpp"
#include "image/unpack_chunk.hpp"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;

Bytes up_to_multiple(Bytes bytes, Bytes of) noexcept {
  return (bytes + of - 1) / of * of;
}

}  // namespace

LoadWorker::LoadWorker(ImageLoading::State& state, std::size_t number) noexcept
    : state_(state),
      lane_(*state.lanes[number]),
      ahead_(state.buffers.empty() ? kAheadInPlace : kAheadPacked),
      first_slot_(number * kAheadPacked) {}

void LoadWorker::run() {
  if (auto done = guarded([&] { return work(); }); !done) state_.end(std::move(done).error());
}

Result<void> LoadWorker::work() {
  for (;;) {
    while (flights_.size() < ahead_) {
      GANTRY_ASSIGN(const bool has_begun, begin_next());
      if (!has_begun) break;
    }
    if (flights_.empty()) return {};
    GANTRY_TRY(finish(flights_.front()));
    flights_.pop_front();
  }
}

// False: nothing is left.
Result<bool> LoadWorker::begin_next() {
  if (state_.options.deadline.passed())
    return fail(Code::timed_out, state_.path + ": it was not loaded when time was up",
                "allow more time");
  const auto chunk = state_.take();
  if (!chunk) return false;
  const ImageChunk& facts = state_.chunks[*chunk];
  const Bytes bytes = up_to_multiple(facts.stored_bytes, state_.file->alignment());
  LoadMemory to;
  if (facts.coding.codec == Codec::none) {
    to = state_.place_of(*chunk, bytes);
  } else {
    to = state_.buffers[first_slot_ + begun_++ % kAheadPacked];
    to.bytes = to.bytes.first(bytes);
  }
  GANTRY_ASSIGN(const Ticket ticket, lane_.submit({FileTransfer::Kind::read, state_.file,
                                                   facts.offset, to.bytes, to.keep}));
  flights_.push_back({*chunk, ticket, to.bytes.first(facts.stored_bytes)});
  return true;
}

Result<void> LoadWorker::finish(const Flight& flight) {
  const ImageChunk& facts = state_.chunks[flight.chunk];
  const auto began = Clock::now();
  if (auto read = lane_.wait(flight.ticket, state_.options.deadline); !read)
    return fail(read.error().code,
                fmt::format("{}: {}", image::chunk_place(state_.path, flight.chunk, facts.offset),
                            read.error().message),
                read.error().hint);
  const auto came = Clock::now();
  const ByteSpan raw = state_.place_of(flight.chunk, facts.raw_bytes).bytes;
  GANTRY_TRY(image::unpack_chunk(decoder_, state_.path, flight.chunk, facts, flight.stored, raw));
  state_.there(flight.chunk, came - began, Clock::now() - came);
  return {};
}

}  // namespace gantry
