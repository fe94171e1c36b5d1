#pragma once  // channel/consumer/slab_registrations.hpp: what a consumer's registrars know of one
              // slab.

#include <gantry/channel/status.hpp>
#include <memory>
#include <span>
#include <vector>

#include "channel/consumer/receive_quota.hpp"

namespace gantry {

/// A slab is registered whole, once, for reading: it is mapped read-only. A registrar that refuses
/// it concerns nobody but those who ask for its keys. Dropped before the slab is unmapped.
/// Threads: the receiving one makes them before any message in the slab is handed out; from then on
/// they stay as they are, and any thread asks for keys.
class SlabRegistrations {
 public:
  using Registrars = std::span<const std::shared_ptr<Registrar>>;

  /// Of ConsumerOptions::registrars; `end` names the end. Error: `invalid_argument`.
  [[nodiscard]] static Result<void> check(Registrars registrars, std::string_view end);

  /// Registering makes the slab's pages on this process's account, so `quota` is asked first. What
  /// this throws leaves nothing registered.
  void make(const Region& slab, Registrars registrars, SenderQuota& quota);
  [[nodiscard]] bool are_made() const noexcept { return !entries_.empty(); }

  /// The key of the whole slab. Errors: why that registrar refused it; `invalid_argument` for one
  /// that the consumer did not name, and in a fork()ed child.
  [[nodiscard]] Result<DeviceKey> key_for(const Registrar& registrar) const;

  /// Adds this slab to what is told of each registrar, in the order of make(). Once they are made.
  void add_to(std::span<ReceivedRegistration> told) const;

 private:
  struct Entry {
    const Registrar* registrar = nullptr;
    Registration registration;
    Error refusal;  // if there is no registration
  };
  SenderQuota::Charge charge_;  // of the slab's bytes, whether or not a registrar took it
  std::vector<Entry> entries_;
};

}  // namespace gantry
