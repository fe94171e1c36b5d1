#include "device/ordered_queue.hpp"

#include "base/disown.hpp"
#include "base/result.hpp"
#include "base/worker_thread.hpp"

namespace gantry {

Result<std::unique_ptr<DeviceQueue>> OrderedQueue::open(const std::shared_ptr<DeviceCore>& device,
                                                        QueueRole role,
                                                        std::unique_ptr<Executor> executor) {
  return guarded([&]() -> Result<std::unique_ptr<DeviceQueue>> {
    GANTRY_TRY(device->state());
    auto core = std::make_shared<QueueCore>(device, role, std::move(executor));
    auto queue = std::make_unique<OrderedQueue>(core, role);
    core->open();
    GANTRY_ASSIGN(queue->thread_, start_thread(fmt::format("a queue's thread of {}", device->name),
                                               [core] { core->run(); }));
    return queue;
  });
}

OrderedQueue::~OrderedQueue() {
  if (!core_->device().is_here()) {  // the thread did not come along with fork(), nor its lock
    disown(core_);
    disown(std::move(thread_));
    return;
  }
  const bool is_idle = core_->close();
  if (!thread_.joinable()) return;
  if (is_idle)
    thread_.join();
  else
    thread_.detach();  // held up by an abandoned device; it holds what it needs
}

// ---- checks --------------------------------------------------------------------------------

Result<void> OrderedQueue::check_buffer(std::string_view what, const DeviceBuffer& buffer,
                                        Bytes offset, Bytes size) const {
  const DeviceCore& device = core_->device();
  if (!buffer)
    return fail(Code::invalid_argument,
                fmt::format("{}: {}: the buffer is an empty handle", device.name, what));
  if (buffer.state()->device != &device)
    return fail(Code::invalid_argument,
                fmt::format("{}: {}: the buffer is another device's", device.name, what));
  if (offset <= buffer.size() && size <= buffer.size() - offset) return {};
  return fail(Code::invalid_argument,
              fmt::format("{}: {}: {} bytes from offset {} on do not lie in a buffer of {} bytes",
                          device.name, what, size, offset, buffer.size()));
}

Result<void> OrderedQueue::check_host(std::string_view what, const std::byte* at,
                                      Bytes size) const {
  if (at != nullptr || size == 0) return {};
  return fail(Code::invalid_argument, fmt::format("{}: {}: {} bytes of host memory at address 0",
                                                  core_->device().name, what, size));
}

Result<void> OrderedQueue::check_launch(const Kernel& kernel,
                                        std::span<const KernelArgument> arguments) const {
  const DeviceCore& device = core_->device();
  if (!kernel)
    return fail(Code::invalid_argument,
                fmt::format("{}: launch: the kernel is an empty handle", device.name));
  if (kernel.state()->device != &device)
    return fail(Code::invalid_argument,
                fmt::format("{}: launch of '{}': the kernel is another device's", device.name,
                            kernel.name()));
  std::size_t index = 0;
  for (const KernelArgument& argument : arguments) {
    if (argument.is_buffer() &&
        (argument.buffer() == nullptr || argument.buffer()->device != &device))
      return fail(
          Code::invalid_argument,
          fmt::format("{}: launch of '{}': argument {} is {}", device.name, kernel.name(), index,
                      argument.buffer() == nullptr ? "an empty buffer handle"
                                                   : "a buffer of another device"));
    if (argument.is_buffer() && argument.partial_bytes() > argument.buffer()->size)
      return fail(Code::invalid_argument,
                  fmt::format("{}: launch of '{}': argument {}: a partial result of {} bytes in a "
                              "buffer of {}",
                              device.name, kernel.name(), index, argument.partial_bytes(),
                              argument.buffer()->size));
    ++index;
  }
  return {};
}

// ---- operations ----------------------------------------------------------------------------

Result<DeviceEvent> OrderedQueue::copy_in(const DeviceBuffer& to, Bytes offset, ConstByteSpan from,
                                          KeepAlive keep) {
  return guarded([&]() -> Result<DeviceEvent> {
    GANTRY_TRY(check_buffer("copy-in", to, offset, from.size()));
    GANTRY_TRY(check_host("copy-in", from.data(), from.size()));
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::copy_in;
    operation->to = to.state();
    operation->to_offset = offset;
    operation->size = from.size();
    operation->host_from = from.data();
    operation->keep = std::move(keep);
    return core_->submit(std::move(operation));
  });
}

Result<DeviceEvent> OrderedQueue::copy_out(const DeviceBuffer& from, Bytes offset, ByteSpan to,
                                           KeepAlive keep) {
  return guarded([&]() -> Result<DeviceEvent> {
    GANTRY_TRY(check_buffer("copy-out", from, offset, to.size()));
    GANTRY_TRY(check_host("copy-out", to.data(), to.size()));
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::copy_out;
    operation->from = from.state();
    operation->from_offset = offset;
    operation->size = to.size();
    operation->host_to = to.data();
    operation->keep = std::move(keep);
    return core_->submit(std::move(operation));
  });
}

Result<DeviceEvent> OrderedQueue::copy(const DeviceBuffer& to, Bytes to_offset,
                                       const DeviceBuffer& from, Bytes from_offset, Bytes size) {
  return guarded([&]() -> Result<DeviceEvent> {
    GANTRY_TRY(check_buffer("copy", to, to_offset, size));
    GANTRY_TRY(check_buffer("copy", from, from_offset, size));
    const Bytes apart = to_offset < from_offset ? from_offset - to_offset : to_offset - from_offset;
    if (to.state() == from.state() && apart < size)
      return fail(Code::invalid_argument,
                  fmt::format("{}: copy of {} bytes from offset {} to offset {} of the same "
                              "buffer: the ranges overlap",
                              core_->device().name, size, from_offset, to_offset));
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::copy;
    operation->to = to.state();
    operation->to_offset = to_offset;
    operation->from = from.state();
    operation->from_offset = from_offset;
    operation->size = size;
    return core_->submit(std::move(operation));
  });
}

Result<DeviceEvent> OrderedQueue::fill(const DeviceBuffer& to, Bytes offset, Bytes size,
                                       std::byte value) {
  return guarded([&]() -> Result<DeviceEvent> {
    GANTRY_TRY(check_buffer("fill", to, offset, size));
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::fill;
    operation->to = to.state();
    operation->to_offset = offset;
    operation->size = size;
    operation->value = value;
    return core_->submit(std::move(operation));
  });
}

Result<DeviceEvent> OrderedQueue::launch(const Kernel& kernel,
                                         std::span<const KernelArgument> arguments,
                                         const LaunchRange& range) {
  return guarded([&]() -> Result<DeviceEvent> {
    GANTRY_TRY(check_launch(kernel, arguments));
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::launch;
    operation->kernel = kernel.state();
    operation->arguments.assign(arguments.begin(), arguments.end());
    operation->range = range;
    return core_->submit(std::move(operation));
  });
}

Result<DeviceEvent> OrderedQueue::record() {
  return guarded([&] { return core_->submit(std::make_shared<Operation>()); });
}

Result<void> OrderedQueue::wait_for(const DeviceEvent& event) {
  if (!event) return {};
  return guarded([&]() -> Result<void> {
    auto queued = std::dynamic_pointer_cast<QueuedEvent>(event.state());
    if (queued == nullptr || queued->device() != &core_->device())
      return fail(Code::invalid_argument,
                  fmt::format("{}: wait_for: an event of another device", core_->device().name));
    return core_->wait_for(std::move(queued));
  });
}

Result<void> OrderedQueue::drain(Deadline deadline) {
  return guarded([&] { return core_->drain(deadline); });
}

void OrderedQueue::cancel() noexcept {
  core_->cancel();
}

}  // namespace gantry
