#pragma once  // channel/consumer/receive_quota.hpp: what senders may cost their receiver.

#include <array>
#include <gantry/channel.hpp>
#include <memory>
#include <mutex>

#include "core/base/result.hpp"

namespace gantry {

/// What a sender takes of its receiver.
enum class Expense : std::uint8_t { slabs, mapped_bytes, gathered_bytes, registered_bytes };
inline constexpr std::size_t kExpenses = 4;

/// What all senders of one receiving end may take together. Any thread.
///   I1  No sender has more than `each`.
///   I2  Up to `reserve` a sender gets, whatever the others have: the senders' reserves together
///       are not more than the total.
///   I3  What senders have beyond their reserves is together not more than `common`.
class ReceiveQuota {
 public:
  /// `each` and `total` as the user has them: zeros become what suits this process, of which
  /// `senders` may come at a time.
  static std::shared_ptr<ReceiveQuota> make(const ReceiveLimits& each, const ReceiveLimits& total,
                                            unsigned senders);

 private:
  friend class SenderQuota;
  struct Bound {
    std::uint64_t each = 0;
    std::uint64_t reserve = 0;
    std::uint64_t common = 0;
    std::uint64_t common_used = 0;  // under mutex_
  };
  [[nodiscard]] static Bound bound(std::uint64_t each, std::uint64_t total, unsigned senders,
                                   std::uint64_t least) noexcept;

  std::mutex mutex_;  // also over what each sender has
  std::array<Bound, kExpenses> bounds_;
};

/// What one sender has taken. Lives as long as anything that it took. Any thread.
class SenderQuota : public std::enable_shared_from_this<SenderQuota> {
 public:
  explicit SenderQuota(std::shared_ptr<ReceiveQuota> all) noexcept : all_(std::move(all)) {}

  /// An amount that was taken; goes back when dropped. Move-only.
  class Charge {
   public:
    Charge() noexcept = default;
    Charge(std::shared_ptr<SenderQuota> from, Expense expense, std::uint64_t amount) noexcept
        : from_(std::move(from)), expense_(expense), amount_(amount) {}
    Charge(Charge&&) noexcept = default;
    Charge& operator=(Charge&& other) noexcept {
      std::swap(from_, other.from_);
      std::swap(expense_, other.expense_);
      std::swap(amount_, other.amount_);
      return *this;
    }
    ~Charge() {
      if (from_ != nullptr) from_->give(expense_, amount_);
    }

   private:
    std::shared_ptr<SenderQuota> from_;
    Expense expense_{};
    std::uint64_t amount_ = 0;
  };
  /// Error: `too_large`, which says what to raise.
  [[nodiscard]] Result<Charge> take(Expense expense, std::uint64_t amount);
  [[nodiscard]] std::uint64_t used(Expense expense) const;

 private:
  void give(Expense expense, std::uint64_t amount) noexcept;

  const std::shared_ptr<ReceiveQuota> all_;
  std::array<std::uint64_t, kExpenses> used_{};  // under the quota's mutex_
};

}  // namespace gantry
