#include <algorithm>
#include <gantry/memory.hpp>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

std::uintptr_t address(const std::byte* at) noexcept {
  return reinterpret_cast<std::uintptr_t>(at);
}

}  // namespace

struct GANTRY_LOCAL Registrar::State {
  struct Range {
    ByteSpan memory;
    DeviceAccess access = DeviceAccess::read_write;
    std::uint64_t key = 0;
    std::uint64_t remote_key = 0;
    std::uint64_t users = 0;  // handles into it
  };

  State(std::string given, const RegistrarOptions& wanted) {
    report.name = std::move(given);
    report.budget_bytes = wanted.budget_bytes;
  }

  // I1: no two ranges overlap, so the last one that begins at or before an address is the only
  // one that can hold it.
  Range* covering(ByteSpan memory) {
    auto after = ranges.upper_bound(address(memory.data()));
    if (after == ranges.begin()) return nullptr;
    Range& range = std::prev(after)->second;
    const std::uintptr_t end = address(memory.data()) + memory.size();
    return end <= address(range.memory.data()) + range.memory.size() ? &range : nullptr;
  }

  const Range* overlapping(ByteSpan memory) {
    const std::uintptr_t end = address(memory.data()) + memory.size();
    auto next = ranges.lower_bound(end);
    if (next == ranges.begin()) return nullptr;
    const Range& range = std::prev(next)->second;
    return address(range.memory.data()) + range.memory.size() > address(memory.data()) ? &range
                                                                                       : nullptr;
  }

  void note_failed_leave(int error) noexcept {
    report.failed += 1;
    try {
      report.last_error =
          fmt::format("{}: unregistering: {}", report.name, std::generic_category().message(error));
    } catch (const std::bad_alloc&) {
      report.last_error.clear();  // counted all the same
    }
  }

  Error refuse(Error error) {
    report.failed += 1;
    error.message = fmt::format("{}: {}", report.name, error.message);
    report.last_error = error.message;
    return error;
  }

  Result<void> check_budget(Bytes size) {
    if (report.budget_bytes == 0) return {};
    if (size > report.budget_bytes)
      return fail(
          Code::too_large,
          fmt::format("registering {} bytes: the budget is {} bytes", size, report.budget_bytes),
          "register less at a time, or raise RegistrarOptions::budget_bytes");
    if (report.bytes + size <= report.budget_bytes) return {};
    return fail(Code::out_of_memory,
                fmt::format("registering {} bytes: {} of the budget of {} bytes are registered",
                            size, report.bytes, report.budget_bytes),
                "drop registrations that are not used, or raise RegistrarOptions::budget_bytes");
  }

  void charge(std::uint64_t started_ns) {
    report.time += std::chrono::nanoseconds(monotonic_ns() - started_ns);
  }

  std::mutex mutex;
  RegistrarReport report;
  std::map<std::uintptr_t, Range> ranges;  // by where they begin
  ForkGuard fork_guard;
};

Registrar::Registrar(std::string name, const RegistrarOptions& options)
    : state_(std::make_unique<State>(std::move(name), options)) {}

Registrar::~Registrar() {
  GANTRY_ASSERT(state_->ranges.empty() || !state_->fork_guard.is_this());  // handles keep us alive
}

const std::string& Registrar::name() const noexcept {
  return state_->report.name;
}

// A thread that did not come along may hold what a fork()ed child inherited: nothing there waits
// for it.
RegistrarReport Registrar::report() const {
  if (!state_->fork_guard.is_this()) {
    RegistrarReport nothing;
    nothing.name = name();
    return nothing;
  }
  const std::lock_guard lock(state_->mutex);
  return state_->report;
}

Result<Registration> Registrar::register_memory(ByteSpan memory, DeviceAccess access) {
  return register_checked(memory, access, false);
}

// For memory that was mapped a moment ago: whatever is registered there has been unmapped since.
Result<Registration> Registrar::register_fresh(ByteSpan memory, DeviceAccess access) {
  return register_checked(memory, access, true);
}

Result<Registration> Registrar::register_checked(ByteSpan memory, DeviceAccess access,
                                                 bool is_fresh) {
  return guarded([&]() -> Result<Registration> {
    if (!state_->fork_guard.is_this())
      return fail(Code::invalid_argument,
                  name() + ": the registrar is of the process that forked this one",
                  "make one in this process");
    const std::lock_guard lock(state_->mutex);
    auto checked = check_range(memory, is_fresh);
    auto registration = checked ? register_locked(memory, access)
                                : Result<Registration>(tl::unexpected(std::move(checked).error()));
    if (registration) return registration;
    return tl::unexpected(state_->refuse(std::move(registration).error()));
  });
}

Result<void> Registrar::check_range(ByteSpan memory, bool is_fresh) {
  const void* const begin = memory.data();
  if (memory.empty()) return fail(Code::invalid_argument, "registering 0 bytes");
  if (memory.size() > ~std::uintptr_t{0} - address(memory.data()))
    return fail(Code::invalid_argument,
                fmt::format("registering {} bytes at {}: that is beyond the address space",
                            memory.size(), begin));
  if (is_fresh && state_->overlapping(memory) != nullptr)
    return fail(Code::already_exists,
                fmt::format("registering {} bytes at {}: other memory is still registered that was "
                            "unmapped there",
                            memory.size(), begin),
                "drop registrations before the memory they are of");
  return {};
}

Result<Registration> Registrar::register_locked(ByteSpan memory, DeviceAccess access) {
  State& state = *state_;
  State::Range* range = state.covering(memory);
  if (range != nullptr && range->access == DeviceAccess::read && access != DeviceAccess::read)
    return fail(Code::already_exists,
                fmt::format("registering {} bytes at {}: they lie in a registration for reading",
                            memory.size(), static_cast<const void*>(memory.data())),
                "drop that one first, or register for reading, too");
  if (range != nullptr) {
    state.report.reused += 1;
  } else {
    GANTRY_TRY(add(memory, access));
    range = state.covering(memory);
  }
  range->users += 1;
  Registration registration;
  registration.registrar_ = shared_from_this();
  registration.memory_ = memory;
  registration.range_ = range;
  registration.key_ = {range->key, range->remote_key,
                       static_cast<Bytes>(memory.data() - range->memory.data())};
  return registration;
}

Result<void> Registrar::add(ByteSpan memory, DeviceAccess access) {
  State& state = *state_;
  if (const State::Range* other = state.overlapping(memory))
    return fail(Code::already_exists,
                fmt::format("registering {} bytes at {}: they overlap the registration of {} at {}",
                            memory.size(), static_cast<const void*>(memory.data()),
                            other->memory.size(), static_cast<const void*>(other->memory.data())),
                "drop that one first, or register both ranges as one");
  GANTRY_TRY(state.check_budget(memory.size()));
  // The entry is made first: once the device knows the memory nothing may fail any more.
  const auto entry =
      state.ranges.emplace(address(memory.data()), State::Range{memory, access, 0, 0, 0}).first;
  const std::uint64_t started = monotonic_ns();
  auto keys = guarded([&] { return do_register(memory, access); });
  state.charge(started);
  if (!keys) {
    state.ranges.erase(entry);
    return tl::unexpected(std::move(keys).error());
  }
  entry->second.key = keys->key;
  entry->second.remote_key = keys->remote_key;
  state.report.made += 1;
  state.report.registrations += 1;
  state.report.bytes += memory.size();
  state.report.peak_bytes = std::max(state.report.peak_bytes, state.report.bytes);
  return {};
}

void Registrar::leave(void* entry) noexcept {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  State::Range& range = *static_cast<State::Range*>(entry);
  GANTRY_ASSERT(range.users > 0);
  if (--range.users != 0) return;
  GANTRY_ASSERT(state.report.bytes >= range.memory.size());
  const std::uint64_t started = monotonic_ns();
  const int error = do_unregister({range.key, range.remote_key}, range.memory);
  state.charge(started);
  if (error != 0) state.note_failed_leave(error);
  state.report.registrations -= 1;
  state.report.bytes -= range.memory.size();
  state.ranges.erase(address(range.memory.data()));
}

// ---- the handle ----------------------------------------------------------------------------

Registration::Registration(Registration&& other) noexcept
    : registrar_(std::move(other.registrar_)),
      memory_(std::exchange(other.memory_, {})),
      range_(std::exchange(other.range_, nullptr)),
      key_(std::exchange(other.key_, {})) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  Registration taken(std::move(other));  // its end is the end of what this was
  std::swap(registrar_, taken.registrar_);
  std::swap(memory_, taken.memory_);
  std::swap(range_, taken.range_);
  std::swap(key_, taken.key_);
  return *this;
}

Registration::~Registration() {
  // In a fork()ed child the device does not know us: there is nothing to undo.
  if (registrar_ && registrar_->state_->fork_guard.is_this()) registrar_->leave(range_);
}

Result<DeviceKey> Registration::key() const {
  if (!registrar_) return fail(Code::invalid_argument, "the key of no registration at all");
  if (!registrar_->state_->fork_guard.is_this())
    return fail(Code::invalid_argument,
                fmt::format("{}: the registration is of the process that forked this one",
                            registrar_->name()),
                "register the memory again in this process");
  return key_;
}

}  // namespace gantry
