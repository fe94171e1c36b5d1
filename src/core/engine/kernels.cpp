#include "core/engine/kernels.hpp"
#include "core/base/clock.hpp"
#include "core/base/sizes.hpp"

#include <gantry/engine.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>

// Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU, by including this file again, and picks at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/engine/kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gantry::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Vectors = hn::ScalableTag<std::uint8_t>;

// Some machines answer several requests to different pages sooner than as many to one: there eight
// pages are copied side by side, two cache lines of each in turn. Others then take four times as
// long. Measured against 1, 2, 4 and 16 pages and 1 to 8 lines: docs/results/engine.md.
constexpr Bytes kPages = 8;
constexpr Bytes kStep = 128;

template <Bytes kBytes>
HWY_INLINE void stream_lines(Vectors vectors, std::uint8_t* HWY_RESTRICT to,
                             const std::uint8_t* HWY_RESTRICT from) {
  const Bytes lanes = hn::Lanes(vectors);
  for (Bytes at = 0; at < kBytes; at += lanes)
    hn::Stream(hn::LoadU(vectors, from + at), vectors, to + at);
}

HWY_INLINE void stream_row(Vectors vectors, std::uint8_t* to, const std::uint8_t* from) {
  for (Bytes page = 0; page < kPages * kSmallestPage; page += kSmallestPage)
    stream_lines<kStep>(vectors, to + page, from + page);
}

// Four rows a turn, so that a loop's own instructions are only a sixtieth of all.
HWY_INLINE void stream_pages(Vectors vectors, std::uint8_t* to, const std::uint8_t* from) {
  for (Bytes line = 0; line < kSmallestPage; line += 4 * kStep) {
    stream_row(vectors, to + line, from + line);
    stream_row(vectors, to + line + kStep, from + line + kStep);
    stream_row(vectors, to + line + 2 * kStep, from + line + 2 * kStep);
    stream_row(vectors, to + line + 3 * kStep, from + line + 3 * kStep);
  }
}

// `to` is a multiple of 64, `bytes` of kStep.
void StreamCopy(std::uint8_t* to, const std::uint8_t* from, Bytes bytes, bool side_by_side) {
  const Vectors vectors;
  Bytes at = 0;
  for (; side_by_side && at + kPages * kSmallestPage <= bytes; at += kPages * kSmallestPage)
    stream_pages(vectors, to + at, from + at);
  for (; at < bytes; at += kStep) stream_lines<kStep>(vectors, to + at, from + at);
  hwy::FlushStream();
}

void StreamFill(std::uint8_t* to, std::uint64_t pattern, Bytes bytes) {
  const Vectors vectors;
  const Bytes lanes = hn::Lanes(vectors);
  const auto value =
      hn::BitCast(vectors, hn::Set(hn::Repartition<std::uint64_t, Vectors>(), pattern));
  for (Bytes at = 0; at < bytes; at += lanes) hn::Stream(value, vectors, to + at);
  hwy::FlushStream();
}

const char* TargetName() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace
}  // namespace gantry::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gantry {
namespace {

HWY_EXPORT(StreamCopy);
HWY_EXPORT(StreamFill);
HWY_EXPORT(TargetName);

constexpr Bytes kAlignment = 64;  // of the widest vector
constexpr Bytes kGranule = 128;   // StreamCopy's step
constexpr Bytes kLeast = 4 * kGranule;

Bytes head_of(const std::byte* destination) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(destination);
  return (kAlignment - address % kAlignment) % kAlignment;
}

/// Which way is quicker on this machine. The first large copies of the process are the trial, some
/// pieces of them by each way. Any thread. Relaxed: an update that is lost costs a trial.
class StreamWays {
 public:
  static constexpr Bytes kPiece = Bytes{256} << 10;

  [[nodiscard]] bool is_over() const noexcept {
    return trials_.load(std::memory_order_relaxed) >= kTrials;
  }
  [[nodiscard]] bool side_by_side() const noexcept {
    return best_[1].load(std::memory_order_relaxed) <= best_[0].load(std::memory_order_relaxed);
  }
  /// `copy(side_by_side)` copies a piece.
  template <class Copy>
  void try_one(Copy copy) noexcept {
    const unsigned way = trials_.fetch_add(1, std::memory_order_relaxed) % 2;
    const std::uint64_t began = read_ticks();
    copy(way == 1);
    const std::uint64_t took = read_ticks() - began;
    if (took < best_[way].load(std::memory_order_relaxed))
      best_[way].store(took, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned kTrials = 12;
  std::atomic<unsigned> trials_{0};
  std::array<std::atomic<std::uint64_t>, 2> best_{~std::uint64_t{0}, ~std::uint64_t{0}};
};

StreamWays stream_ways;

std::uint8_t* raw(std::byte* at) noexcept {
  return reinterpret_cast<std::uint8_t*>(at);
}
const std::uint8_t* raw(const std::byte* at) noexcept {
  return reinterpret_cast<const std::uint8_t*>(at);
}

// The pattern as it stands `offset` bytes after the front.
std::uint64_t turned(std::uint64_t pattern, Bytes offset) noexcept {
  return std::rotr(pattern, static_cast<int>(offset % sizeof pattern * 8));
}

}  // namespace

void stream_copy(std::byte* destination, const std::byte* source, Bytes bytes) noexcept {
  if (bytes < kLeast) {
    if (bytes > 0) std::memcpy(destination, source, bytes);
    return;
  }
  const Bytes head = head_of(destination);
  const Bytes end = head + (bytes - head) / kGranule * kGranule;
  std::memcpy(destination, source, head);
  Bytes at = head;
  const auto copy = [&](Bytes size, bool side_by_side) {
    HWY_DYNAMIC_DISPATCH(StreamCopy)(raw(destination + at), raw(source + at), size, side_by_side);
    at += size;
  };
  while (end - at >= StreamWays::kPiece && !stream_ways.is_over())
    stream_ways.try_one([&](bool side_by_side) { copy(StreamWays::kPiece, side_by_side); });
  copy(end - at, stream_ways.side_by_side());
  std::memcpy(destination + end, source + end, bytes - end);
}

void cached_fill(std::byte* destination, std::uint64_t pattern, Bytes bytes) noexcept {
  const auto value = static_cast<unsigned char>(pattern);
  if (pattern == 0x0101'0101'0101'0101u * value) {
    if (bytes > 0) std::memset(destination, value, bytes);
    return;
  }
  Bytes at = 0;
  for (; at + sizeof pattern <= bytes; at += sizeof pattern)
    std::memcpy(destination + at, &pattern, sizeof pattern);
  std::memcpy(destination + at, &pattern, bytes - at);
}

void stream_fill(std::byte* destination, std::uint64_t pattern, Bytes bytes) noexcept {
  if (bytes < kLeast) return cached_fill(destination, pattern, bytes);
  const Bytes head = head_of(destination);
  const Bytes body = (bytes - head) / kGranule * kGranule;
  cached_fill(destination, pattern, head);
  HWY_DYNAMIC_DISPATCH(StreamFill)(raw(destination + head), turned(pattern, head), body);
  cached_fill(destination + head + body, turned(pattern, head + body), bytes - head - body);
}

void Copier::slow_copy(void* destination, const void* source, Bytes bytes) const noexcept {
  if (bytes < streaming_from_)
    std::memcpy(destination, source, bytes);
  else
    stream(destination, source, bytes);
}

void Copier::stream(void* destination, const void* source, Bytes bytes) noexcept {
  stream_copy(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes);
}

const char* vector_target() noexcept {
  return HWY_DYNAMIC_DISPATCH(TargetName)();
}

}  // namespace gantry
#endif  // HWY_ONCE
