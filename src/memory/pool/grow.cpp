#include <algorithm>

#include "base/result.hpp"
#include "base/system_memory.hpp"
#include "memory/pool/state.hpp"

// Takes more memory from the system and registers it with every device before anybody gets a piece.
namespace gantry {

Result<void> PoolState::grow(const Need& need) {
  auto size = fit_budget(need);
  if (!size) return tl::unexpected(named(std::move(size).error()));
  auto slab = make_slab(*size);
  if (const Bytes least = least_slab(need); !slab && least < *size) slab = make_slab(least);
  if (!slab) return tl::unexpected(named(std::move(slab).error()));
  const std::lock_guard lock(mutex_);
  slabs_.reserve(slabs_.size() + 1);
  by_address_.emplace(reinterpret_cast<std::uintptr_t>((*slab)->region->data()), slab->get());
  slab_bytes_ += (*slab)->region->size();  // from here on nothing fails
  slabs_.push_back(std::move(*slab));
  return {};
}

// An alignment may cost its own size.
Bytes PoolState::least_slab(const Need& need) noexcept {
  return round_up(need.capacity + (need.alignment > kPage ? need.alignment : 0), kPage);
}

// A whole slab if the budget allows one, else what is needed and no more. Slabs come and go under
// growing_, too.
std::optional<Bytes> PoolState::largest_fit(const Need& need) const noexcept {
  const Bytes budget = options_.budget_bytes;
  const Bytes taken = slab_bytes_ + (need.counts_lingering ? lingering_bytes() : 0);
  const auto fits = [&](Bytes size) {
    return size <= budget && taken <= budget && size <= budget - taken;
  };
  const Bytes least = least_slab(need);
  const Bytes whole = std::max(least, round_up(options_.slab_bytes, kPage));
  if (fits(whole)) return whole;
  return fits(least) ? std::optional(least) : std::nullopt;
}

// The size for the new slab. Empty slabs make room; only here is anything ever unregistered.
Result<Bytes> PoolState::fit_budget(const Need& need) {
  std::optional<Bytes> fit = largest_fit(need);
  if (!fit) {
    std::unique_ptr<Slab> dropped;  // destroyed after the lock
    {
      const std::lock_guard lock(mutex_);
      dropped = drop_empty_slabs();
    }
    dropped.reset();  // memory that nobody else maps no longer counts
    fit = largest_fit(need);
  }
  if (!fit) {
    const std::lock_guard lock(mutex_);
    const Bytes lingering = need.counts_lingering ? lingering_bytes() : 0;
    return fail(
        Code::out_of_memory,
        fmt::format("a block of {} bytes: {} of the budget of {} bytes are taken{}{}", need.size,
                    slab_bytes_ + lingering, options_.budget_bytes,
                    lingering == 0
                        ? std::string()
                        : fmt::format(", {} of them by memory that readers still map", lingering),
                    largest_holders()),
        "release blocks sooner, or raise the budget");
  }
  const Bytes left = system_memory().available;
  if (*fit > left) fit = least_slab(need);
  if (*fit > left)
    return fail(Code::out_of_memory,
                fmt::format("a block of {} bytes: the machine has {} bytes left", need.size, left),
                "free memory, or use smaller blocks");
  return *fit;
}

Result<std::unique_ptr<Slab>> PoolState::make_slab(Bytes size) {
  GANTRY_ASSIGN(Region made, Region::create(size, "gantry-" + options_.name, options_.region));
  const bool touched = options_.touch == When::at_growth || options_.collapse;
  if (touched) GANTRY_TRY(made.touch(0, made.size(), 0));
  const auto collapsed = options_.collapse ? made.collapse() : Result<void>();
  auto slab = std::make_unique<Slab>(*this, next_slab_++, std::make_shared<Region>(std::move(made)),
                                     touched, charged_);
  if (!collapsed) slab->collapse_error = to_string(collapsed.error());
  if (options_.registration == When::at_growth)
    for (std::size_t i = 0; i < options_.registrars.size(); ++i)
      slab->register_with(i, *options_.registrars[i]);
  return slab;
}

Result<DeviceKey> PoolState::far_key_for(const Extent& extent, const Registrar& registrar) {
  using State = SlabRegistration::State;
  if (!fork_guard_.is_this())
    return fail(Code::invalid_argument, "the registration is of the process that forked this one",
                "make a pool in this process");
  for (std::size_t i = 0; i < options_.registrars.size(); ++i) {
    if (options_.registrars[i].get() != &registrar) continue;
    SlabRegistration& registration = extent.slab->registrations[i];
    if (registration.state.load(std::memory_order_acquire) == State::none)  // [S]
      extent.slab->register_with(i, *options_.registrars[i]);
    if (registration.state.load(std::memory_order_acquire) == State::refused)  // [S]
      return tl::unexpected(named(registration.error));
    DeviceKey key = registration.key;
    key.offset += extent.offset();
    return key;
  }
  return tl::unexpected(named({Code::invalid_argument,
                               fmt::format("registrar '{}' is not one of its", registrar.name()),
                               "name it in PoolOptions::registrars"}));
}

}  // namespace gantry
