#include <algorithm>
#include <optional>
#include <thread>

#include "core/base/os/disown.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"
#include "device/operation.hpp"

namespace gantry {
namespace {

// From the beginning of the first row to the end of the last one; nothing: it cannot be counted.
std::optional<Bytes> extent_of(const CopyRows& rows, Bytes stride) noexcept {
  Bytes all = 0;
  if (rows.is_empty()) return all;
  if (__builtin_mul_overflow(rows.rows - 1, stride, &all) ||
      __builtin_add_overflow(all, rows.row_bytes, &all))
    return std::nullopt;
  return all;
}

struct RowExtents {
  Bytes to = 0;
  Bytes from = 0;
};

Result<RowExtents> check_rows(std::string_view what, const CopyRows& rows) {
  if (rows.is_empty()) return RowExtents{};
  const auto to = extent_of(rows, rows.to_stride);
  const auto from = extent_of(rows, rows.from_stride);
  const bool is_apart =
      rows.rows == 1 || std::min(rows.to_stride, rows.from_stride) >= rows.row_bytes;
  if (to && from && is_apart) return RowExtents{*to, *from};
  return fail(Code::invalid_argument,
              fmt::format("{}: {} rows of {} bytes, {} apart to {} apart: {}", what, rows.rows,
                          rows.row_bytes, rows.from_stride, rows.to_stride,
                          is_apart ? "beyond all memory" : "a stride is shorter than a row"));
}

Result<void> check_host(std::string_view what, const void* at, Bytes size, Bytes extent) {
  if (extent == 0 || (at != nullptr && size >= extent)) return {};
  return fail(Code::invalid_argument,
              at == nullptr ? fmt::format("{}: {} bytes of host memory at address 0", what, extent)
                            : fmt::format("{}: the rows take {} bytes of host memory, there are {}",
                                          what, extent, size));
}

// Rows of one stride overlap if any two of them do: their distance is a number of strides and a
// rest.
bool overlap(Bytes one, Bytes other, Bytes stride, const CopyRows& rows) noexcept {
  const Bytes distance = std::max(one, other) - std::min(one, other);
  if (rows.rows == 1) return distance < rows.row_bytes;
  const Bytes strides = distance / stride;
  const Bytes rest = distance % stride;
  return (rest < rows.row_bytes && strides < rows.rows) ||
         (stride - rest < rows.row_bytes && strides + 1 < rows.rows);
}

CopyRows one_row(Bytes size) noexcept {
  return {.rows = 1, .row_bytes = size, .to_stride = size, .from_stride = size};
}

/// Calls `copy` for each row with its place on both sides.
template <class Copy>
Result<DeviceEvent> row_by_row(DeviceQueue& queue, const CopyRows& rows, Copy copy) {
  if (rows.is_empty()) return queue.record();
  for (Bytes row = 0; row + 1 < rows.rows; ++row)
    GANTRY_TRY(copy(row * rows.to_stride, row * rows.from_stride));
  return copy((rows.rows - 1) * rows.to_stride, (rows.rows - 1) * rows.from_stride);
}

// What is one range on both sides becomes one row.
void set_rows(Operation& operation, const CopyRows& rows) noexcept {
  const bool is_dense = rows.to_stride == rows.row_bytes && rows.from_stride == rows.row_bytes;
  operation.rows = is_dense ? 1 : rows.rows;
  operation.size = is_dense ? rows.rows * rows.row_bytes : rows.row_bytes;
  operation.to_stride = rows.to_stride;
  operation.from_stride = rows.from_stride;
}

/// The queue of devices whose executors keep the contract of device/operation.hpp.
class OrderedQueue final : public DeviceQueue {
 public:
  OrderedQueue(std::shared_ptr<QueueCore> core, QueueRole role) noexcept
      : core_(std::move(core)), role_(role) {}
  [[nodiscard]] Result<void> start() {
    GANTRY_ASSIGN(thread_, start_thread(fmt::format("a queue's thread of {}", core_->device().name),
                                        [core = core_] { core->run(); }));
    return {};
  }
  ~OrderedQueue() override {
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

  [[nodiscard]] QueueRole role() const noexcept override { return role_; }
  [[nodiscard]] Result<DeviceEvent> copy_in(const DeviceBuffer& to, Bytes offset,
                                            ConstByteSpan from, KeepAlive keep) override {
    return copy_in_rows(to, offset, from, one_row(from.size()), std::move(keep));
  }
  [[nodiscard]] Result<DeviceEvent> copy_out(const DeviceBuffer& from, Bytes offset, ByteSpan to,
                                             KeepAlive keep) override {
    return copy_out_rows(from, offset, to, one_row(to.size()), std::move(keep));
  }
  [[nodiscard]] Result<DeviceEvent> copy(const DeviceBuffer& to, Bytes to_offset,
                                         const DeviceBuffer& from, Bytes from_offset,
                                         Bytes size) override {
    return copy_rows(to, to_offset, from, from_offset, one_row(size));
  }
  [[nodiscard]] Result<DeviceEvent> copy_in_rows(const DeviceBuffer& to, Bytes offset,
                                                 ConstByteSpan from, const CopyRows& rows,
                                                 KeepAlive keep) override {
    return guarded([&]() -> Result<DeviceEvent> {
      const std::string what = core_->device().name + ": copy-in";
      GANTRY_ASSIGN(const RowExtents extents, check_rows(what, rows));
      GANTRY_TRY(check_buffer("copy-in", to, offset, extents.to));
      GANTRY_TRY(check_host(what, from.data(), from.size(), extents.from));
      auto operation = std::make_shared<Operation>();
      operation->kind = Operation::Kind::copy_in;
      operation->to = to.state();
      operation->to_offset = offset;
      operation->host_from = from.data();
      operation->keep = std::move(keep);
      set_rows(*operation, rows);
      return core_->submit(std::move(operation));
    });
  }

  [[nodiscard]] Result<DeviceEvent> copy_out_rows(const DeviceBuffer& from, Bytes offset,
                                                  ByteSpan to, const CopyRows& rows,
                                                  KeepAlive keep) override {
    return guarded([&]() -> Result<DeviceEvent> {
      const std::string what = core_->device().name + ": copy-out";
      GANTRY_ASSIGN(const RowExtents extents, check_rows(what, rows));
      GANTRY_TRY(check_buffer("copy-out", from, offset, extents.from));
      GANTRY_TRY(check_host(what, to.data(), to.size(), extents.to));
      auto operation = std::make_shared<Operation>();
      operation->kind = Operation::Kind::copy_out;
      operation->from = from.state();
      operation->from_offset = offset;
      operation->host_to = to.data();
      operation->keep = std::move(keep);
      set_rows(*operation, rows);
      return core_->submit(std::move(operation));
    });
  }

  [[nodiscard]] Result<DeviceEvent> copy_rows(const DeviceBuffer& to, Bytes to_offset,
                                              const DeviceBuffer& from, Bytes from_offset,
                                              const CopyRows& rows) override {
    return guarded([&]() -> Result<DeviceEvent> {
      const std::string what = core_->device().name + ": copy";
      GANTRY_ASSIGN(const RowExtents extents, check_rows(what, rows));
      GANTRY_TRY(check_buffer("copy", to, to_offset, extents.to));
      GANTRY_TRY(check_buffer("copy", from, from_offset, extents.from));
      const bool is_within = to.state() == from.state() && !rows.is_empty();
      if (is_within && rows.rows > 1 && rows.to_stride != rows.from_stride)
        return fail(Code::invalid_argument,
                    fmt::format("{} of rows of the same buffer, {} apart to {} apart", what,
                                rows.from_stride, rows.to_stride),
                    "within a buffer both strides are the same");
      const bool is_range = rows.rows == 1 && rows.to_stride == rows.row_bytes;
      if (is_within && overlap(to_offset, from_offset, rows.to_stride, rows))
        return fail(
            Code::invalid_argument,
            fmt::format("{} of {}{} bytes from offset {} to offset {} of the same buffer: "
                        "the {} overlap",
                        what, is_range ? "" : fmt::format("{} rows of ", rows.rows), rows.row_bytes,
                        from_offset, to_offset, is_range ? "ranges" : "rows"));
      auto operation = std::make_shared<Operation>();
      operation->kind = Operation::Kind::copy;
      operation->to = to.state();
      operation->to_offset = to_offset;
      operation->from = from.state();
      operation->from_offset = from_offset;
      set_rows(*operation, rows);
      return core_->submit(std::move(operation));
    });
  }

  [[nodiscard]] Result<DeviceEvent> fill(const DeviceBuffer& to, Bytes offset, Bytes size,
                                         std::byte value) override {
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

  [[nodiscard]] Result<DeviceEvent> launch(const Kernel& kernel,
                                           std::span<const KernelArgument> arguments,
                                           const LaunchRange& range) override {
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

  using DeviceQueue::launch;
  [[nodiscard]] Result<DeviceEvent> record() override {
    return guarded([&] { return core_->submit(std::make_shared<Operation>()); });
  }
  [[nodiscard]] Result<void> wait_for(const DeviceEvent& event) override {
    if (!event) return {};
    return guarded([&]() -> Result<void> {
      if (event.state()->device() != &core_->device())
        return fail(Code::invalid_argument,
                    fmt::format("{}: wait_for: an event of another device", core_->device().name));
      return core_->wait_for(event.state());
    });
  }

  [[nodiscard]] Result<void> drain(Deadline deadline) override {
    return guarded([&] { return core_->drain(deadline); });
  }
  void cancel() noexcept override { core_->cancel(); }

 private:
  [[nodiscard]] Result<void> check_buffer(std::string_view what, const DeviceBuffer& buffer,
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

  [[nodiscard]] Result<void> check_launch(const Kernel& kernel,
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
        return fail(
            Code::invalid_argument,
            fmt::format("{}: launch of '{}': argument {}: a partial result of {} bytes in a "
                        "buffer of {}",
                        device.name, kernel.name(), index, argument.partial_bytes(),
                        argument.buffer()->size));
      ++index;
    }
    return {};
  }

  const std::shared_ptr<QueueCore> core_;
  const QueueRole role_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<DeviceQueue>> open_ordered_queue(const std::shared_ptr<DeviceCore>& device,
                                                        QueueRole role,
                                                        std::unique_ptr<Executor> executor) {
  return guarded([&]() -> Result<std::unique_ptr<DeviceQueue>> {
    GANTRY_TRY(device->state());
    auto core = std::make_shared<QueueCore>(device, role, std::move(executor));
    auto queue = std::make_unique<OrderedQueue>(core, role);
    core->open();
    GANTRY_TRY(queue->start());
    return queue;
  });
}

// ---- any queue -------------------------------------------------------------------------------

Result<DeviceEvent> DeviceQueue::copy_in_rows(const DeviceBuffer& to, Bytes offset,
                                              ConstByteSpan from, const CopyRows& rows,
                                              KeepAlive keep) {
  GANTRY_ASSIGN(const RowExtents extents, check_rows("copy-in", rows));
  GANTRY_TRY(check_host("copy-in", from.data(), from.size(), extents.from));
  return row_by_row(*this, rows, [&](Bytes to_row, Bytes from_row) {
    return copy_in(to, offset + to_row, from.subspan(from_row, rows.row_bytes), keep);
  });
}

Result<DeviceEvent> DeviceQueue::copy_out_rows(const DeviceBuffer& from, Bytes offset, ByteSpan to,
                                               const CopyRows& rows, KeepAlive keep) {
  GANTRY_ASSIGN(const RowExtents extents, check_rows("copy-out", rows));
  GANTRY_TRY(check_host("copy-out", to.data(), to.size(), extents.to));
  return row_by_row(*this, rows, [&](Bytes to_row, Bytes from_row) {
    return copy_out(from, offset + from_row, to.subspan(to_row, rows.row_bytes), keep);
  });
}

Result<DeviceEvent> DeviceQueue::copy_rows(const DeviceBuffer& to, Bytes to_offset,
                                           const DeviceBuffer& from, Bytes from_offset,
                                           const CopyRows& rows) {
  GANTRY_TRY(check_rows("copy", rows));
  return row_by_row(*this, rows, [&](Bytes to_row, Bytes from_row) {
    return copy(to, to_offset + to_row, from, from_offset + from_row, rows.row_bytes);
  });
}

}  // namespace gantry
