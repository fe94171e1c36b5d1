#pragma once  // channel/consumer/looked_place.hpp: the place that a reader looks at.

#include <memory>

#include "core/base/poison.hpp"
#include "core/channel/consumer/consumer_core.hpp"

namespace gantry {

/// Owns the message over a place beside the records while the user looks at it: one at a time, on
/// the receiving thread. With AddressSanitizer a place is poisoned from the end of a look until its
/// next message.
///   L1  ConsumerPage::looking is the number of that message, and 0 otherwise.
class GANTRY_LOCAL LookedPlace final : public detail::SlotOwner {
 public:
  explicit LookedPlace(ConsumerCore& core) noexcept : core_(core) {}
  ~LookedPlace() override {  // the next to map this address must not suffer
    if (core_.producer_memory.data() != nullptr)
      unpoison({core_.producer_memory.data(), core_.producer_memory.size()});
  }
  LookedPlace(const LookedPlace&) = delete;
  LookedPlace& operator=(const LookedPlace&) = delete;

  /// Bytes of a place, to read.
  [[nodiscard]] ConstByteSpan bytes(const BesidePlace& at) const noexcept {
    const auto& place = core_.page().beside[at.place];
    const ConstByteSpan bytes = ConstByteSpan(place).first(at.bytes);
    unpoison(bytes);
    return bytes;
  }
  /// A look begins; the message is taken next.
  void begin(const MessageHeader& header, ConstByteSpan bytes) noexcept {
    std::atomic<std::uint64_t>& looking = core_.own_page().looking;
    GANTRY_DEBUG_ASSERT(looking.load(std::memory_order_relaxed) == 0);  // L1
    bytes_ = bytes;
    // The store of `taken` carries it. Release: whoever reads it, and not the 0 before it, must
    // come after the reads of the look before, too. [Q]
    looking.store(header.number, std::memory_order_release);
    GANTRY_STEP(look_begun);
  }
  /// The look ends. The producer does not wait for it, so nobody must be woken.
  void give_back(std::uint64_t) noexcept override {
    if (!core_.fork_guard.is_this()) return;  // a fork's copy: the parent still looks
    poison(bytes_);
    core_.own_page().looking.store(0, std::memory_order_release);  // [Q]
    GANTRY_STEP(look_ended);
  }
  /// Does not keep this: whoever looks keeps the end.
  [[nodiscard]] std::shared_ptr<detail::SlotOwner> owner() noexcept {
    return {std::shared_ptr<void>(), this};
  }

 private:
  ConsumerCore& core_;
  ConstByteSpan bytes_;
};

}  // namespace gantry
