#include "image/snapshot/page_fetcher.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "base/thread_urgency.hpp"
#include "base/worker_thread.hpp"
#include "image/snapshot/page_loader.hpp"
#include "image/tables.hpp"

namespace gantry::snapshot {
namespace {

constexpr Bytes kGrainBytes = kGrainPages * kPageBytes;
constexpr std::size_t kAtATime = 4;  // reads

bool is_packed(const ImageChunk& chunk) noexcept {
  return chunk.coding.codec != Codec::none;
}

}  // namespace

Result<void> PageFetcher::prepare(FileIo& io) {
  const StartsUrgent urgent;
  GANTRY_ASSIGN(lane_, io.open_lane());
  for (std::size_t i = 0; i < kAtATime; ++i) {
    GANTRY_ASSIGN(LoadMemory memory, take_memory({}, kMostFrameBytes + 2 * kImageBorder));
    buffers_.push_back(std::move(memory));
  }
  GANTRY_ASSIGN(raw_, take_memory({}, kMostFrameBytes));
  heads_.resize(loader_.chunks.size());
  return {};
}

Result<void> PageFetcher::start() {
  const StartsUrgent urgent;
  GANTRY_ASSIGN(thread_, start_thread("a thread that fetches pages", [this] {
                  ::pthread_setname_np(::pthread_self(), "gantry-pages");
                  if (auto done = guarded([this] { return run(); }); !done)
                    loader_.end(std::move(done).error());
                }));
  return {};
}

void PageFetcher::cancel() noexcept {
  if (lane_) lane_->cancel();
}

void PageFetcher::join() noexcept {
  if (thread_.joinable()) thread_.join();
}

Result<void> PageFetcher::run() {
  GANTRY_TRY(fetch_until(Until::working_set));
  GANTRY_TRY(read_heads());
  return fetch_until(Until::all);
}

// Whoever waits goes first.
Result<void> PageFetcher::read_heads() {
  std::vector<Grain> some;
  for (const std::size_t chunk : loader_.order()) {
    if (!is_packed(loader_.chunks[chunk])) continue;
    some.push_back({chunk, 0});
    if (some.size() < kAtATime) continue;
    GANTRY_TRY(fetch_until(Until::now));
    GANTRY_TRY(need_heads(some));
    some.clear();
  }
  return need_heads(some);
}

Result<void> PageFetcher::fetch_until(Until until) {
  for (;;) {
    const auto grains = loader_.take_urgent(kAtATime, until);
    if (grains.empty()) return {};
    GANTRY_TRY(fetch(grains));
  }
}

tl::unexpected<Error> PageFetcher::bad(const Error& error, std::size_t chunk) const {
  return fail(
      error.code,
      fmt::format("{}: {}", image::chunk_place(loader_.path, chunk, loader_.chunks[chunk].offset),
                  error.message),
      error.code == Code::timed_out ? "allow more time: RestoreOptions::deadline"
      : error.hint.empty()          ? "copy it again from where it came, or save it anew"
                                    : error.hint);
}

Result<PageFetcher::Read> PageFetcher::begin(Grain grain, Bytes from, Bytes bytes,
                                             std::size_t slot) {
  const Bytes border = loader_.file->alignment();
  const Bytes at = loader_.chunks[grain.chunk].offset + from;
  Read read{grain, bytes, at % border, {}, {}};
  read.into = buffers_[slot].bytes.first((read.before + bytes + border - 1) / border * border);
  auto ticket = lane_->submit(
      {FileTransfer::Kind::read, loader_.file, at - read.before, read.into, buffers_[slot].keep});
  if (!ticket) return bad(ticket.error(), grain.chunk);
  read.ticket = *ticket;
  return read;
}

Result<ConstByteSpan> PageFetcher::finish(const Read& read) {
  if (auto done = lane_->wait(read.ticket, loader_.ends); !done)
    return bad(done.error(), read.grain.chunk);
  return ConstByteSpan(read.into).subspan(read.before, read.bytes);
}

Result<void> PageFetcher::need_heads(std::span<const Grain> grains) {
  std::vector<Read> reads;
  for (const Grain grain : grains) {
    const ImageChunk& chunk = loader_.chunks[grain.chunk];
    if (!is_packed(chunk) || !heads_[grain.chunk].empty()) continue;
    const Bytes bytes =
        std::min<Bytes>(codec::head_bytes(chunk.coding, chunk.raw_bytes), chunk.stored_bytes);
    GANTRY_ASSIGN(const Read read, begin(grain, 0, bytes, reads.size()));
    reads.push_back(read);
  }
  for (const Read& read : reads) {
    GANTRY_ASSIGN(const ConstByteSpan head, finish(read));
    heads_[read.grain.chunk].assign(head.begin(), head.end());
  }
  return {};
}

Result<void> PageFetcher::fetch(std::span<const Grain> grains) {
  GANTRY_TRY(need_heads(grains));
  std::vector<Read> reads;
  for (const Grain grain : grains) {
    const ImageChunk& chunk = loader_.chunks[grain.chunk];
    const Bytes at = grain.index * kGrainBytes;
    Bytes from = at, bytes = std::min(kGrainBytes, chunk.raw_bytes - at);
    if (is_packed(chunk)) {
      const auto frames =
          codec::read_head(chunk.coding, heads_[grain.chunk], chunk.stored_bytes, chunk.raw_bytes);
      if (!frames) return bad(frames.error(), grain.chunk);
      const codec::Frame& frame = (*frames)[at / chunk.coding.frame_bytes];
      from = frame.at, bytes = frame.stored;
    }
    GANTRY_ASSIGN(const Read read, begin(grain, from, bytes, reads.size()));
    reads.push_back(read);
  }
  for (const Read& read : reads) {
    GANTRY_ASSIGN(const ConstByteSpan stored, finish(read));
    GANTRY_TRY(unpack(read, stored));
  }
  return {};
}

// All grains of the frame: they are unpacked anyway.
Result<void> PageFetcher::unpack(const Read& read, ConstByteSpan stored) {
  const ImageChunk& chunk = loader_.chunks[read.grain.chunk];
  Grain first = read.grain;
  ConstByteSpan raw = stored;
  if (is_packed(chunk)) {
    const Bytes grains = chunk.coding.frame_bytes / kGrainBytes;
    first.index -= first.index % grains;
    const Bytes from = first.index * kGrainBytes;
    const ByteSpan into =
        raw_.bytes.first(std::min<Bytes>(chunk.coding.frame_bytes, chunk.raw_bytes - from));
    if (auto done = decoder_.decode_frame(chunk.coding, stored, into); !done)
      return bad(done.error(), first.chunk);
    raw = into;
  }
  return loader_.fetched(first, raw, read.into.size());
}

}  // namespace gantry::snapshot
