#include "buffer.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <numeric>

namespace gantry::bench {
namespace {

constexpr Bytes kWord = sizeof(std::uint64_t);

std::uint64_t word_at(const std::byte* at, Bytes size = kWord) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, at, size);
  return word;
}

}  // namespace

Bytes page_bytes() noexcept {
  return static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

Bytes whole_pages(Bytes bytes) noexcept {
  const Bytes page = page_bytes();
  return (std::max<Bytes>(bytes, 1) + page - 1) / page * page;
}

std::uint64_t checksum(ConstByteSpan bytes) noexcept {
  constexpr Bytes kLanes = 16;  // independent sums: the loop is bound by loads, not by additions
  std::array<std::uint64_t, kLanes> lanes{};
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  for (; static_cast<Bytes>(end - at) >= kLanes * kWord; at += kLanes * kWord) {
    for (Bytes lane = 0; lane < kLanes; ++lane) lanes[lane] += word_at(at + lane * kWord);
  }
  std::uint64_t sum = std::accumulate(lanes.begin(), lanes.end(), std::uint64_t{0});
  for (; static_cast<Bytes>(end - at) >= kWord; at += kWord) sum += word_at(at);
  return sum + word_at(at, static_cast<Bytes>(end - at));
}

Buffer::Buffer(Bytes size) : size_(size) {
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes(), whole_pages(size))));
  if (memory_ == nullptr) throw std::bad_alloc();  // caught where a process of the bench begins
  std::memset(memory_.get(), 1, size);             // not 0: nobody may skip writing zero pages
}

}  // namespace gantry::bench
