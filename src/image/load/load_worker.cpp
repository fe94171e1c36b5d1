#include "image/load/load_worker.hpp"

#include <utility>

#include "base/result.hpp"
#include "base/thread_urgency.hpp"
#include "image/format.hpp"
#include "image/tables.hpp"
#include "image/unpack_chunk.hpp"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

LoadWorker::LoadWorker(LoadJob& job, std::size_t number, std::size_t ahead) noexcept
    : job_(job), number_(number), ahead_(ahead), own_(job.workers[number]) {}

void LoadWorker::run() {
  if (auto done = guarded([&] { return work(); }); !done) job_.end(std::move(done).error());
}

Result<void> LoadWorker::work() {
  for (;;) {
    while (may_begin()) {
      GANTRY_ASSIGN(const bool has_begun, begin_next());
      if (!has_begun) break;
    }
    if (flights_.empty()) return settle();
    GANTRY_TRY(finish(flights_.front()));
    flights_.pop_front();
  }
}

// Nothing behind a chunk that is read piece by piece.
bool LoadWorker::may_begin() const noexcept {
  if (flights_.empty()) return true;
  const Flight& last = flights_.back();
  return flights_.size() < ahead_ && last.piece >= last.to.bytes.size();
}

Result<void> LoadWorker::ask(Flight& flight) {
  const ByteSpan into = flight.to.bytes.subspan(
      flight.asked, std::min(flight.piece, flight.to.bytes.size() - flight.asked));
  GANTRY_ASSIGN(flight.ticket, own_.lane->submit({FileTransfer::Kind::read, job_.file,
                                                  job_.chunks[flight.chunk].offset + flight.asked,
                                                  into, flight.to.keep}));
  flight.asked += into.size();
  return {};
}

// False: nothing is left.
Result<bool> LoadWorker::begin_next() {
  if (job_.ends.passed())
    return fail(Code::timed_out, job_.path + ": it was not loaded when time was up",
                "allow more time");
  const auto chunk = job_.take(number_);
  if (!chunk) return false;
  const ImageChunk& facts = job_.chunks[*chunk];
  const Bytes bytes = image::up_to(facts.stored_bytes, job_.file->alignment());
  LoadMemory to;
  if (facts.coding.codec == Codec::none) to = job_.place_of(*chunk, bytes);
  if (to.bytes.empty()) {
    to = own_.buffers[begun_++ % own_.buffers.size()];
    to.bytes = to.bytes.first(bytes);
  }
  const Bytes piece = job_.piece_of(*chunk);
  flights_.push_back({*chunk, facts.stored_bytes, to, piece != 0 ? piece : bytes});
  GANTRY_TRY(ask(flights_.back()));
  return true;
}

Result<void> LoadWorker::finish(Flight& flight) {
  const ImageChunk& facts = job_.chunks[flight.chunk];
  if (job_.piece_of(flight.chunk) != 0 && !std::exchange(gives_way_, true)) {
    give_way();
    job_.begin_pieces();
  }
  if (!own_.lane->is_over(flight.ticket)) GANTRY_TRY(settle());
  const auto began = Clock::now();
  auto read = own_.lane->wait(flight.ticket, job_.ends);
  while (read && flight.asked < flight.to.bytes.size()) {
    GANTRY_TRY(ask(flight));
    read = own_.lane->wait(flight.ticket, job_.ends);
  }
  if (!read)
    return fail(read.error().code,
                fmt::format("{}: {}", image::chunk_place(job_.path, flight.chunk, facts.offset),
                            read.error().message),
                read.error().hint);
  const auto came = Clock::now();
  GANTRY_ASSIGN(const ByteSpan raw, unpack(flight));
  const auto unpacked = Clock::now();
  GANTRY_TRY(settle());
  GANTRY_TRY(job_.there(flight.chunk, raw, came - began, unpacked - came));
  unsettled_ = flight.chunk;
  return {};
}

// Returns where its raw bytes are.
Result<ByteSpan> LoadWorker::unpack(const Flight& flight) {
  const ImageChunk& facts = job_.chunks[flight.chunk];
  const ByteSpan stored = flight.to.bytes.first(flight.stored);
  ByteSpan raw = stored;
  if (job_.takes_frames()) {
    const ByteSpan memory = own_.raw.empty() ? ByteSpan() : own_.raw.front().bytes;
    const auto take = [&](Bytes from, ConstByteSpan frame) {
      return job_.frame(flight.chunk, from, frame);
    };
    GANTRY_TRY(
        image::unpack_frames(decoder_, job_.path, flight.chunk, facts, stored, memory, take));
    return ByteSpan();
  }
  if (facts.coding.codec != Codec::none) {
    raw = job_.place_of(flight.chunk, facts.raw_bytes).bytes;
    if (raw.empty()) raw = own_.raw[unpacked_++ % own_.raw.size()].bytes.first(facts.raw_bytes);
  }
  GANTRY_TRY(image::unpack_chunk(decoder_, job_.path, flight.chunk, facts, stored, raw));
  return raw;
}

Result<void> LoadWorker::settle() {
  return unsettled_ ? job_.settle(*std::exchange(unsettled_, {})) : Result<void>{};
}

}  // namespace gantry
