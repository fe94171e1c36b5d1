#pragma once  // cuda/context.hpp: what all objects of one open device share.

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device/cuda/driver.hpp"
#include "device/operation.hpp"

namespace gantry::cuda {

/// From cuDeviceGetAttribute(); 0 if it does not tell.
[[nodiscard]] int attribute(const Driver& driver, Ordinal device, Attribute which,
                            int offset = 0) noexcept;

struct Limits {
  std::array<std::size_t, 3> block{1, 1, 1};
  std::array<std::size_t, 3> grid{1, 1, 1};
  std::size_t threads_per_block = 1;
  Bytes shared_bytes = 0;  ///< Shared memory of a block that asks for more than every kernel may
                           ///< have.
};

/// The device's primary context, shared with other users of it in this process.
///
/// The driver does not survive fork(), and freeing memory waits for a kernel that never ends. So in
/// a child nothing is called; and memory that is dropped of a lost or abandoned device is kept
/// until the last of its queues has come to an end.
class Context {
 public:
  /// Errors: `system`, `device_full`, `device_lost`.
  [[nodiscard]] static Result<std::shared_ptr<Context>> open(const Driver& driver, int index);
  Context(const Driver& functions, int index);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  /// Runs `call` with this context current, then makes the caller's current again.
  template <class Call>
  Status with(Call call) const noexcept {
    ContextHandle before = nullptr;
    if (const Status status = driver.get_current(&before); status != kSuccess) return status;
    if (const Status status = driver.set_current(handle_); status != kSuccess) return status;
    const Status status = call();
    driver.set_current(before);
    return status;
  }
  /// For a thread of our own: makes the context current for good.
  Status enter() const noexcept { return driver.set_current(handle_); }

  /// Calls `free`, now or when it cannot hold up anybody.
  void discard(Status (*free)(const Driver& driver, void* thing), void* thing) const noexcept;

  // Only a kernel's own end shows whose fault it was: other operations wait until those are heard.
  void launch_began() const noexcept;
  void launch_ended() const noexcept;
  void await_launches() const noexcept;

  const Driver driver;
  const std::shared_ptr<DeviceCore> core;
  Ordinal device = 0;
  Limits limits;

 private:
  struct Discarded {
    Status (*free)(const Driver& driver, void* thing);
    void* thing;
  };
  ContextHandle handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::condition_variable launches_over_;
  mutable std::size_t launches_ = 0;
  mutable std::vector<Discarded> discarded_;
};
using ContextPointer = std::shared_ptr<const Context>;

/// An object of a context, which it keeps alive.
template <class Handle, Status (*Driver::*kFree)(Handle)>
class Owned {
 public:
  Owned() noexcept = default;
  Owned(ContextPointer context, Handle handle) noexcept
      : context_(std::move(context)), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ == Handle{}) return;
    context_->discard(
        [](const Driver& driver, void* thing) { return (driver.*kFree)(back(thing)); },
        forth(handle_));
  }
  [[nodiscard]] Handle get() const noexcept { return handle_; }

 private:
  // NOLINTBEGIN(performance-no-int-to-ptr): device memory has numbers for addresses
  static void* forth(Handle handle) noexcept {
    if constexpr (std::is_pointer_v<Handle>)
      return handle;
    else
      return reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle));
  }
  static Handle back(void* thing) noexcept {
    if constexpr (std::is_pointer_v<Handle>)
      return static_cast<Handle>(thing);
    else
      return static_cast<Handle>(reinterpret_cast<std::uintptr_t>(thing));
  }
  // NOLINTEND(performance-no-int-to-ptr)

  ContextPointer context_;
  Handle handle_{};
};
using OwnedMemory = Owned<Address, &Driver::free>;
using OwnedStream = Owned<StreamHandle, &Driver::stream_destroy>;
using OwnedEvent = Owned<EventHandle, &Driver::event_destroy>;
using OwnedModule = Owned<ModuleHandle, &Driver::module_unload>;

/// Errors: the driver's.
[[nodiscard]] Result<OwnedStream> make_stream(const ContextPointer& context);
[[nodiscard]] Result<OwnedEvent> make_event(const ContextPointer& context);

}  // namespace gantry::cuda
