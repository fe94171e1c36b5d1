#include "payload.hpp"

#include <cstring>

namespace gantry::bench {
namespace {

constexpr Bytes kWordBytes = sizeof(std::uint64_t);

std::uint64_t word_at(const std::byte* at) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

Payload::Payload(Bytes size) : buffer_(size), words_(size / kWordBytes) {
  for (Bytes word = 0; word < words_; ++word) {
    const std::uint64_t value = random();
    std::memcpy(buffer_.bytes().data() + word * kWordBytes, &value, kWordBytes);
  }
  sum_ = bench::checksum(buffer_.bytes());
}

void Payload::rewrite() noexcept {
  const std::uint64_t step = random() | 1;  // odd: no number of words makes the sum what it was
  std::byte* at = buffer_.bytes().data();
  for (Bytes word = 0; word < words_; ++word, at += kWordBytes) {
    const std::uint64_t value = word_at(at) + step;
    std::memcpy(at, &value, kWordBytes);
  }
  sum_ += step * words_;
  is_all_new_ = true;
}

void Payload::change() noexcept {
  changed_ = {0, words_ - 1, random() % words_};
  for (const Bytes word : changed_) put(word, random());
  is_all_new_ = false;
}

void Payload::bring_up_to_date(ByteSpan copy) const noexcept {
  const std::byte* const from = buffer_.bytes().data();
  if (is_all_new_) {
    std::memcpy(copy.data(), from, copy.size());
    return;
  }
  for (const Bytes word : changed_)
    std::memcpy(copy.data() + word * kWordBytes, from + word * kWordBytes, kWordBytes);
}

std::uint64_t Payload::random() noexcept {  // xorshift64: a few cycles, no state to fetch
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_;
}

void Payload::put(Bytes word, std::uint64_t value) noexcept {
  std::byte* const at = buffer_.bytes().data() + word * kWordBytes;
  sum_ += value - word_at(at);
  std::memcpy(at, &value, kWordBytes);
}

}  // namespace gantry::bench
