#pragma once  // channel/consumer/copied_payloads.hpp: private memory of messages that were copied
              // out.

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <gantry/channel.hpp>
#include <memory>
#include <new>

#include "core/base/assert.hpp"
#include "core/channel/wire/format.hpp"

namespace gantry {

// One thread copies; whoever has a message gives it back, on any thread.
//   I1  A buffer is in one message's hands at most: from copy(), which clears its bit, until
//       give_back() sets it. [G]
// Pair [G]: the last reads of the message before give_back(); the next copy after the bit is seen.

/// Buffers that are used again and again, so that copying a small message out allocates nothing.
/// Messages keep this alive, not the end that they came to. When all buffers are in messages' hands
/// each further message has one of its own.
class GANTRY_LOCAL CopiedPayloads final : public detail::SlotOwner {
 public:
  static constexpr std::size_t kBuffers = 64;
  struct Copy {
    std::uint64_t token;
    ConstByteSpan bytes;
  };

  /// At most kBesideBytes. What it throws leaves everything as it was.
  [[nodiscard]] Copy copy(ConstByteSpan bytes) {
    GANTRY_ASSERT(bytes.size() <= kBesideBytes);
    const std::uint64_t free = free_.load(std::memory_order_acquire);  // [G]
    if (free == 0) return copy_alone(bytes);
    const auto index = static_cast<std::size_t>(std::countr_zero(free));
    if (!buffers_[index]) buffers_[index] = std::make_unique<Buffer>();
    // Relaxed: this thread alone clears bits, and what was read of the buffer was seen above.
    free_.fetch_and(~(std::uint64_t{1} << index), std::memory_order_relaxed);
    std::byte* const to = buffers_[index]->bytes.data();
    std::memcpy(to, bytes.data(), bytes.size());
    return {index, {to, bytes.size()}};
  }

  void give_back(std::uint64_t token) noexcept override {
    if (token >= kBuffers) {
      alone_.fetch_sub(1, std::memory_order_relaxed);
      return ::operator delete[](as_alone(token), kAlignment);
    }
    const std::uint64_t bit = std::uint64_t{1} << token;
    const std::uint64_t before = free_.fetch_or(bit, std::memory_order_release);  // [G]
    GANTRY_ASSERT((before & bit) == 0);                                           // I1
  }
  /// Messages that have a buffer, by now at most.
  [[nodiscard]] std::size_t held() const noexcept {
    const std::uint64_t free = free_.load(std::memory_order_relaxed);
    return kBuffers - static_cast<std::size_t>(std::popcount(free)) +
           alone_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_immutable(std::uint64_t, ConstByteSpan) const override { return true; }

 private:
  // As blocks of a pool lie, and so messages that are not copied.
  static constexpr std::align_val_t kAlignment{64};
  struct alignas(64) Buffer {
    std::array<std::byte, kBesideBytes> bytes;
  };

  // Of a buffer alone the token is its address, which is no small number.
  [[nodiscard]] static std::byte* as_alone(std::uint64_t token) noexcept {
    return reinterpret_cast<std::byte*>(token);  // NOLINT(performance-no-int-to-ptr): it was one
  }
  [[nodiscard]] Copy copy_alone(ConstByteSpan bytes) {
    auto* const buffer = static_cast<std::byte*>(::operator new[](bytes.size(), kAlignment));
    std::memcpy(buffer, bytes.data(), bytes.size());
    alone_.fetch_add(1, std::memory_order_relaxed);
    return {reinterpret_cast<std::uint64_t>(buffer), {buffer, bytes.size()}};
  }

  std::array<std::unique_ptr<Buffer>, kBuffers> buffers_;
  std::atomic<std::uint64_t> free_{~std::uint64_t{0}};
  std::atomic<std::size_t> alone_{0};  // beyond the buffers; only for people
};

}  // namespace gantry
