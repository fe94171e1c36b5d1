#pragma once  // device/memory_budget.hpp: counts the device memory that buffers have taken.

#include <atomic>
#include <gantry/device/device.hpp>
#include <utility>

#include "base/result.hpp"

namespace gantry {

/// Any thread may call every member.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  /// The bytes of one buffer; gives them back when it goes.
  class Share {
   public:
    Share() noexcept = default;
    Share(std::shared_ptr<MemoryBudget> budget, Bytes bytes) noexcept
        : budget_(std::move(budget)), bytes_(bytes) {}
    Share(Share&& other) noexcept
        : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&&) = delete;
    ~Share() {
      // relaxed: a count by itself
      if (budget_ != nullptr) budget_->taken_.fetch_sub(bytes_, std::memory_order_relaxed);
    }
    [[nodiscard]] explicit operator bool() const noexcept { return budget_ != nullptr; }

   private:
    std::shared_ptr<MemoryBudget> budget_;
    Bytes bytes_ = 0;
  };

  explicit MemoryBudget(Bytes limit) noexcept : limit_(limit) {}
  [[nodiscard]] static std::shared_ptr<MemoryBudget> make(Bytes limit) {
    return std::make_shared<MemoryBudget>(limit);
  }

  [[nodiscard]] Bytes left() const noexcept {
    return limit_ - taken_.load(std::memory_order_relaxed);  // a count by itself
  }
  /// An empty share: there is not enough.
  [[nodiscard]] Share take(Bytes bytes) noexcept {
    Bytes taken = taken_.load(std::memory_order_relaxed);  // as above
    do {
      if (bytes > limit_ - taken) return {};
    } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
    return {shared_from_this(), bytes};
  }

 private:
  const Bytes limit_;
  std::atomic<Bytes> taken_{0};
};

[[nodiscard]] inline Result<void> check_size(const DeviceFacts& facts, Bytes size) {
  if (size == 0)
    return fail(Code::invalid_argument, fmt::format("{}: a buffer of 0 bytes", facts.name));
  if (size <= facts.max_buffer_bytes) return {};
  return fail(
      Code::too_large,
      fmt::format("{}: a buffer of {} bytes; at most {}", facts.name, size, facts.max_buffer_bytes),
      "work through it in chunks");
}

/// For Device::over().
[[nodiscard]] inline Result<void> check_over(const DeviceFacts& facts, ByteSpan memory) {
  GANTRY_TRY(check_size(facts, memory.size()));
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  if (at != 0 && at % facts.in_place_alignment == 0) return {};
  return fail(Code::invalid_argument,
              fmt::format("{}: a buffer over the memory at {:#x}, which is no multiple of {}",
                          facts.name, at, facts.in_place_alignment),
              "align the memory, or allocate a buffer and copy");
}

[[nodiscard]] inline tl::unexpected<Error> device_full(std::string_view device, Bytes size,
                                                       Bytes left) {
  return fail(Code::device_full,
              fmt::format("{}: a buffer of {} bytes: {} bytes are free", device, size, left),
              "use smaller or fewer buffers");
}

}  // namespace gantry
