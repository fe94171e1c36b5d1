#include "core/channel/consumer/receive_quota.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/os/system_memory.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kOwnDescriptors = 64;        // of the process, for all else
constexpr std::uint64_t kDescriptorsOfASender = 10;  // besides its slabs
constexpr std::uint64_t kLeastSlabs = 2;             // one for small messages, one for large ones
constexpr std::uint64_t kMostSlabs = std::uint64_t{1}
                                     << 15;  // about half the kernel's limit of mappings
constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 46;  // half of a process's
constexpr std::uint64_t kShareOfOne = 4;  // one sender's of what is common, at most: a quarter

constexpr std::size_t at(Expense expense) noexcept {
  return static_cast<std::size_t>(expense);
}

std::uint64_t limit_of(__rlimit_resource_t resource, std::uint64_t otherwise) noexcept {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return otherwise;
  return limit.rlim_cur;
}

std::uint64_t slabs_for(unsigned senders) noexcept {
  const std::uint64_t open_files = limit_of(RLIMIT_NOFILE, 2 * kMostSlabs);
  if (senders == 1) return std::min(open_files / 2, kMostSlabs);
  const std::uint64_t taken = kOwnDescriptors + senders * kDescriptorsOfASender;
  const std::uint64_t left = open_files > taken ? open_files - taken : 0;
  return std::clamp(left, senders * kLeastSlabs, std::max(senders * kLeastSlabs, kMostSlabs));
}

struct ExpenseText {
  std::string_view name;
  std::string_view hint;
};
constexpr std::array<ExpenseText, kExpenses> kTexts{{
    {"slabs",
     "raise ReceiveLimits::slabs here, with the limit of open files (ulimit -n); or have larger "
     "slabs there: PoolOptions::slab_bytes"},
    {"bytes of slabs",
     "raise ReceiveLimits::mapped_bytes here, or lower the budget of the sender's pool"},
    {"bytes of streamed messages in private memory",
     "take it chunk by chunk (Consumer::receive_early()), release messages sooner, or raise "
     "ReceiveLimits::gathered_bytes"},
    {"bytes of slabs that are registered",
     "raise ReceiveLimits::registered_bytes here, or have smaller slabs there: "
     "PoolOptions::slab_bytes"},
}};

}  // namespace

std::shared_ptr<ReceiveQuota> ReceiveQuota::make(const ReceiveLimits& each,
                                                 const ReceiveLimits& total, unsigned senders) {
  const auto or_else = [](std::uint64_t wish, std::uint64_t otherwise) {
    return wish != 0 ? wish : otherwise;
  };
  const std::uint64_t addresses =
      std::min(limit_of(RLIMIT_AS, 2 * kAddressSpace) / 2, kAddressSpace);
  const std::uint64_t memory = std::min(system_memory().total / 2, addresses / 2);
  auto made = std::make_shared<ReceiveQuota>();
  made->bounds_[at(Expense::slabs)] =
      bound(each.slabs, or_else(total.slabs, slabs_for(senders)), senders, kLeastSlabs);
  made->bounds_[at(Expense::mapped_bytes)] =
      bound(each.mapped_bytes, or_else(total.mapped_bytes, addresses), senders, 0);
  made->bounds_[at(Expense::gathered_bytes)] =
      bound(each.gathered_bytes, or_else(total.gathered_bytes, memory), senders, 0);
  made->bounds_[at(Expense::registered_bytes)] =
      bound(each.registered_bytes, or_else(total.registered_bytes, memory), senders, 0);
  return made;
}

// Half of it all is divided evenly, the other half is for whoever needs more. I2
ReceiveQuota::Bound ReceiveQuota::bound(std::uint64_t each, std::uint64_t total, unsigned senders,
                                        std::uint64_t least) noexcept {
  GANTRY_ASSERT(senders != 0);
  Bound made;
  const std::uint64_t even =
      std::min(std::max(total / (std::uint64_t{2} * senders), least), total / senders);
  made.reserve = senders == 1 ? total : even;
  GANTRY_ASSERT(made.reserve <= total / senders);  // I2
  made.common = total - made.reserve * senders;
  made.each = each != 0 ? each : made.reserve + made.common / kShareOfOne;
  return made;
}

Result<SenderQuota::Charge> SenderQuota::take(Expense expense, std::uint64_t amount) {
  const std::lock_guard lock(all_->mutex_);
  ReceiveQuota::Bound& bound = all_->bounds_[at(expense)];
  std::uint64_t& used = used_[at(expense)];
  if (amount > bound.each || used > bound.each - amount)
    return fail(Code::too_large,
                fmt::format("{} more {}; of one sender {} are taken, and it has {}", amount,
                            kTexts[at(expense)].name, bound.each, used),
                std::string(kTexts[at(expense)].hint));
  const auto beyond = [&](std::uint64_t amount_had) {
    return amount_had - std::min(amount_had, bound.reserve);
  };
  const std::uint64_t more = beyond(used + amount) - beyond(used);
  if (more > bound.common - bound.common_used)
    return fail(Code::too_large,
                fmt::format("{} more {}; all senders together have too many", amount,
                            kTexts[at(expense)].name),
                std::string(kTexts[at(expense)].hint));
  used += amount;
  bound.common_used += more;
  GANTRY_DEBUG_ASSERT(used <= bound.each);                 // I1
  GANTRY_DEBUG_ASSERT(bound.common_used <= bound.common);  // I3
  return Charge(shared_from_this(), expense, amount);
}

std::uint64_t SenderQuota::used(Expense expense) const {
  const std::lock_guard lock(all_->mutex_);
  return used_[at(expense)];
}

void SenderQuota::give(Expense expense, std::uint64_t amount) noexcept {
  const std::lock_guard lock(all_->mutex_);
  ReceiveQuota::Bound& bound = all_->bounds_[at(expense)];
  std::uint64_t& used = used_[at(expense)];
  GANTRY_ASSERT(amount <= used);
  const std::uint64_t before = used - std::min(used, bound.reserve);
  used -= amount;
  const std::uint64_t less = before - (used - std::min(used, bound.reserve));
  GANTRY_ASSERT(less <= bound.common_used);
  bound.common_used -= less;
}

}  // namespace gantry
