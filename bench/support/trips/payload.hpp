#pragma once  // bench/support/trips/payload.hpp: what is sent, and how the other side proves it
              // read it.

#include <array>

#include "../system/buffer.hpp"

namespace gantry::bench {

/// A message that differs from trip to trip, so that an old one is not taken for the new one.
class Payload {
 public:
  /// `size` is at least kSmallestSize.
  explicit Payload(Bytes size);

  /// New values for all words: the sender's cache owns the payload then, and no other holds it, as
  /// with any message that has just been produced.
  void rewrite() noexcept;
  /// New values for the first, the last and one random word only.
  void change() noexcept;
  /// Makes a copy, equal until the last of these two was called, equal again.
  void bring_up_to_date(ByteSpan copy) const noexcept;

  [[nodiscard]] ConstByteSpan bytes() const noexcept { return buffer_.bytes(); }
  [[nodiscard]] std::uint64_t checksum() const noexcept { return sum_; }  ///< Kept up to date.

 private:
  std::uint64_t random() noexcept;
  void put(Bytes word, std::uint64_t value) noexcept;

  Buffer buffer_;
  Bytes words_;
  std::uint64_t state_ = 0x9e3779b97f4a7c15;  // any value but 0
  std::uint64_t sum_ = 0;
  std::array<Bytes, 3> changed_{};  // words
  bool is_all_new_ = false;
};

}  // namespace gantry::bench
