#include "channel/consumer/slab_registrations.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace gantry {

Result<void> SlabRegistrations::check(Registrars registrars, std::string_view end) {
  const auto refuse = [&](const char* what) {
    return fail(Code::invalid_argument, fmt::format("{}: {}", end, what));
  };
  if (registrars.size() > Pool::kMaxRegistrars) return refuse("more than 8 registrars");
  for (const auto& registrar : registrars) {
    if (registrar == nullptr) return refuse("an empty registrar");
    if (std::ranges::count(registrars, registrar) != 1) return refuse("the same registrar twice");
  }
  return {};
}

void SlabRegistrations::make(const Region& slab, Registrars registrars, SenderQuota& quota) {
  std::vector<Entry> entries(registrars.size());
  auto charge = quota.take(Expense::registered_bytes, slab.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    entry.registrar = registrars[i].get();
    if (!charge) {
      entry.refusal = charge.error();
      continue;
    }
    auto made = registrars[i]->register_fresh({slab.data(), slab.size()}, DeviceAccess::read);
    if (made)
      entry.registration = std::move(*made);
    else
      entry.refusal = std::move(made).error();
  }
  if (charge) charge_ = std::move(*charge);
  entries_ = std::move(entries);
}

Result<DeviceKey> SlabRegistrations::key_for(const Registrar& registrar) const {
  for (const Entry& entry : entries_) {
    if (entry.registrar != &registrar) continue;
    if (!entry.registration) return tl::unexpected(entry.refusal);
    return entry.registration.key();
  }
  return fail(Code::invalid_argument,
              fmt::format("registrar '{}' is not one of this consumer's", registrar.name()),
              "name it in ConsumerOptions::registrars");
}

void SlabRegistrations::add_to(std::span<ReceivedRegistration> told) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.registration) {
      told[i].slabs += 1;
      told[i].bytes += entry.registration.memory().size();
    } else {
      told[i].refused += 1;
      told[i].why = to_string(entry.refusal);
    }
  }
}

}  // namespace gantry
