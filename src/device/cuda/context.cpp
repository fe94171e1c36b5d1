#include "device/cuda/context.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"

namespace gantry::cuda {
namespace {

std::size_t at_least_one(int value) noexcept {
  return static_cast<std::size_t>(std::max(value, 1));
}

Limits limits_of(const Driver& driver, Ordinal device) noexcept {
  Limits limits;
  for (int i = 0; i < 3; ++i) {
    const auto dimension = static_cast<std::size_t>(i);
    limits.block[dimension] = at_least_one(attribute(driver, device, Attribute::max_block_x, i));
    limits.grid[dimension] = at_least_one(attribute(driver, device, Attribute::max_grid_x, i));
  }
  limits.threads_per_block =
      at_least_one(attribute(driver, device, Attribute::max_threads_per_block));
  limits.shared_bytes =
      static_cast<Bytes>(std::max({attribute(driver, device, Attribute::shared_bytes),
                                   attribute(driver, device, Attribute::shared_bytes_opt_in), 0}));
  return limits;
}

}  // namespace

int attribute(const Driver& driver, Ordinal device, Attribute which, int offset) noexcept {
  int value = 0;
  const auto one = static_cast<Attribute>(static_cast<int>(which) + offset);
  return driver.device_attribute(&value, one, device) == kSuccess ? value : 0;
}

Context::Context(const Driver& functions, int index)
    : driver(functions), core(std::make_shared<DeviceCore>(fmt::format("cuda:{}", index))) {}

Result<std::shared_ptr<Context>> Context::open(const Driver& driver, int index) {
  auto context = std::make_shared<Context>(driver, index);
  Status status = driver.device_get(&context->device, index);
  if (status == kSuccess) status = driver.retain(&context->handle_, context->device);
  if (status != kSuccess) return refused(driver, context->core->name, "its context", status);
  context->limits = limits_of(driver, context->device);
  return context;
}

Context::~Context() {
  if (handle_ == nullptr || !core->is_here()) return;
  with([&] {
    for (const Discarded& one : discarded_) one.free(driver, one.thing);
    return kSuccess;
  });
  driver.release(device);
}

void Context::discard(Status (*free)(const Driver& driver, void* thing),
                      void* thing) const noexcept {
  if (!core->is_here()) return;
  if (guarded([&] { return core->state(); })) {
    with([&] { return free(driver, thing); });
    return;
  }
  const std::lock_guard lock(mutex_);
  try {
    discarded_.push_back({free, thing});
  } catch (const std::bad_alloc&) {  // it goes with the context, then
    return;
  }
}

void Context::launch_began() const noexcept {
  const std::lock_guard lock(mutex_);
  ++launches_;
}

void Context::launch_ended() const noexcept {
  const std::lock_guard lock(mutex_);
  GANTRY_DEBUG_ASSERT(launches_ > 0);
  if (--launches_ == 0) launches_over_.notify_all();
}

void Context::await_launches() const noexcept {
  std::unique_lock lock(mutex_);
  launches_over_.wait(lock, [&] { return launches_ == 0; });
}

Result<OwnedStream> make_stream(const ContextPointer& context) {
  StreamHandle stream = nullptr;
  const Status status =
      context->with([&] { return context->driver.stream_create(&stream, kStreamNonBlocking); });
  if (status == kSuccess) return OwnedStream(context, stream);
  return refused(context->driver, context->core->name, "a stream", status);
}

Result<OwnedEvent> make_event(const ContextPointer& context) {
  EventHandle event = nullptr;
  const Status status =
      context->with([&] { return context->driver.event_create(&event, kEventBlocking); });
  if (status == kSuccess) return OwnedEvent(context, event);
  return refused(context->driver, context->core->name, "an event", status);
}

}  // namespace gantry::cuda
