#pragma once  // memory/fake_registrar_test.hpp: a registrar whose cost and failures a test sets.

#include <algorithm>
#include <chrono>
#include <gantry/memory.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/result.hpp"

namespace gantry {

struct FakeRegistrarOptions {
  RegistrarOptions limits{};
  std::chrono::nanoseconds cost{};         ///< Busy time of each registration and unregistration.
  std::chrono::nanoseconds cost_a_page{};  ///< Added for every 4 KiB.
  std::string name = "fake";
  bool takes_reading = true;  ///< False: knows no way to register for reading alone.
};

/// Keys count up from 1, so that no two registrations share one.
class FakeRegistrar final : public Registrar {
 public:
  [[nodiscard]] static std::shared_ptr<FakeRegistrar> create(
      const FakeRegistrarOptions& options = {}) {
    return std::make_shared<FakeRegistrar>(options);
  }
  explicit FakeRegistrar(const FakeRegistrarOptions& options)
      : Registrar(options.name, options.limits),
        cost_(options.cost),
        cost_a_page_(options.cost_a_page),
        takes_reading_(options.takes_reading) {}

  /// Refuses the `number`-th registration from now on (1: the next), `times` in a row.
  void fail_at(std::uint64_t number, Code code, std::uint64_t times = 1) {
    const std::lock_guard lock(mutex_);
    first_failure_ = asked_ + number;
    last_failure_ = first_failure_ + times - 1;
    code_ = code;
  }

  /// The next unregistration reports this errno value; the memory is forgotten all the same.
  void fail_unregister(int error) {
    const std::lock_guard lock(mutex_);
    unregister_error_ = error;
  }

  [[nodiscard]] std::uint64_t live() const {
    const std::lock_guard lock(mutex_);
    return live_.size();
  }

  /// Of these, registered for reading.
  [[nodiscard]] std::uint64_t live_for_reading() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::uint64_t>(std::ranges::count_if(
        live_, [](const auto& one) { return one.second.access == DeviceAccess::read; }));
  }

  /// Reads as the device would by that key; nothing when it knows no such registration.
  [[nodiscard]] std::optional<ConstByteSpan> look(const DeviceKey& key, Bytes size) const {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(key.key);
    if (found == live_.end() || key.offset > found->second.memory.size() ||
        size > found->second.memory.size() - key.offset)
      return std::nullopt;
    return found->second.memory.subspan(key.offset, size);
  }

  /// Unregistrations of something unregistered, or of other memory than was registered.
  [[nodiscard]] std::uint64_t wrong() const {
    const std::lock_guard lock(mutex_);
    return wrong_;
  }

 protected:
  Result<Keys> do_register(ByteSpan memory, DeviceAccess access) override {
    spend(memory.size());
    const std::lock_guard lock(mutex_);
    ++asked_;
    if (asked_ >= first_failure_ && asked_ <= last_failure_)
      return fail(code_, fmt::format("registering {} bytes: as scripted", memory.size()),
                  "change the script");
    if (access == DeviceAccess::read && !takes_reading_)
      return fail(Code::unsupported, "no way to register for reading alone", "copy from it");
    live_.emplace(++last_key_, Live{memory, access});
    return Keys{last_key_, ~last_key_};
  }

  int do_unregister(const Keys& keys, ByteSpan memory) noexcept override {
    spend(memory.size());
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(keys.key);
    if (found == live_.end() || found->second.memory.data() != memory.data()) ++wrong_;
    if (found != live_.end()) live_.erase(found);
    return std::exchange(unregister_error_, 0);
  }

 private:
  struct Live {
    ByteSpan memory;
    DeviceAccess access;
  };
  void spend(Bytes size) const noexcept {
    const auto cost = cost_ + cost_a_page_ * static_cast<std::int64_t>((size + 4095) / 4096);
    const std::uint64_t end = monotonic_ns() + static_cast<std::uint64_t>(cost.count());
    while (monotonic_ns() < end) {
    }
  }

  const std::chrono::nanoseconds cost_;
  const std::chrono::nanoseconds cost_a_page_;
  const bool takes_reading_;
  mutable std::mutex mutex_;
  std::uint64_t asked_ = 0;
  std::uint64_t first_failure_ = 0;  // 0: none is scripted, since asked_ is 1 at the first
  std::uint64_t last_failure_ = 0;
  Code code_ = Code::system;
  int unregister_error_ = 0;
  std::uint64_t wrong_ = 0;
  std::uint64_t last_key_ = 0;
  std::map<std::uint64_t, Live> live_;
};

}  // namespace gantry
