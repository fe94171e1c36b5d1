#include "device/cuda/executor.hpp"

#include "base/result.hpp"
#include "device/cuda/launch.hpp"

namespace gantry::cuda {
namespace {

Address address_of(const std::shared_ptr<BufferState>& buffer, Bytes offset) {
  return static_cast<const Buffer&>(*buffer).object.get() + offset;
}

RowsSide device_side(const std::shared_ptr<BufferState>& buffer, Bytes offset, Bytes stride) {
  return {.type = MemoryType::device, .device = address_of(buffer, offset), .pitch_bytes = stride};
}

RowsSide host_side(const std::byte* memory, Bytes stride) {
  return {.type = MemoryType::host, .host = memory, .pitch_bytes = stride};
}

}  // namespace

Result<std::unique_ptr<Executor>> StreamExecutor::open(const ContextPointer& context) {
  GANTRY_ASSIGN(OwnedStream stream, make_stream(context));
  GANTRY_ASSIGN(auto completer, Completer::open(context, stream.get()));
  return std::make_unique<StreamExecutor>(context, std::move(stream), std::move(completer));
}

Result<void> StreamExecutor::check(const Operation& operation) {
  if (operation.kind != Operation::Kind::launch) return {};
  if (as_product(*operation.kernel) != nullptr) return check_product(*context_, operation);
  return check_launch(*context_, operation);
}

void StreamExecutor::begin(const std::shared_ptr<Operation>& operation,
                           const std::shared_ptr<QueueCore>& queue, bool follows) noexcept {
  operation->timing.began = operation->timing.ended = Deadline::Clock::now();
  // The driver goes on behind a call that it refused.
  if (follows && was_refused_) return queue->done(operation, Error{Code::aborted, {}, {}});
  was_refused_ = false;
  if (!is_inside_) is_inside_ = context_->enter() == kSuccess;
  const Driver& driver = context_->driver;
  const bool is_launch = operation->kind == Operation::Kind::launch;
  if (is_launch) context_->launch_began();
  Status status = driver.event_record(completer_->next_begin(), stream_.get());
  if (status == kSuccess) status = enqueue(*operation);
  const bool is_given = status == kSuccess;
  if (is_given) status = driver.event_record(completer_->next_end(), stream_.get());
  if (status == kSuccess) return completer_->follow(operation, queue);
  was_refused_ = true;
  // It runs, or it ran and failed before its event was recorded.
  if (is_given)
    if (const Status ended = driver.stream_synchronize(stream_.get()); ended != kSuccess)
      status = ended;
  if (is_launch && !is_given) context_->launch_ended();
  end_badly(*context_, operation, queue, status, is_given);
  if (is_launch && is_given) context_->launch_ended();
}

Status StreamExecutor::enqueue(const Operation& operation) noexcept {
  if (operation.kind == Operation::Kind::record) return kSuccess;
  if (operation.kind == Operation::Kind::launch)
    return as_product(*operation.kernel) != nullptr ? products_.multiply(operation, stream_.get())
                                                    : launch(*context_, operation, stream_.get());
  return operation.rows == 1 ? enqueue_row(operation, 0) : enqueue_rows(operation);
}

// Drivers may refuse strides, within a device those that are not of their own making; then it is a
// copy for each row. What was given of them must have ended when the others are refused.
Status StreamExecutor::enqueue_rows(const Operation& operation) const noexcept {
  const Driver& driver = context_->driver;
  const RowsCopy copy{
      operation.from != nullptr
          ? device_side(operation.from, operation.from_offset, operation.from_stride)
          : host_side(operation.host_from, operation.from_stride),
      operation.to != nullptr ? device_side(operation.to, operation.to_offset, operation.to_stride)
                              : host_side(operation.host_to, operation.to_stride),
      operation.size, operation.rows};
  Status status = driver.copy_rows(&copy, stream_.get());
  if (status != kInvalidValue) return status;
  status = kSuccess;
  for (Bytes row = 0; row < operation.rows && status == kSuccess; ++row)
    status = enqueue_row(operation, row);
  if (status != kSuccess) driver.stream_synchronize(stream_.get());
  return status;
}

Status StreamExecutor::enqueue_row(const Operation& operation, Bytes row) const noexcept {
  const Driver& driver = context_->driver;
  StreamHandle stream = stream_.get();
  const Bytes to_row = row * operation.to_stride;
  const Bytes from_row = row * operation.from_stride;
  const auto to = [&] { return address_of(operation.to, operation.to_offset + to_row); };
  const auto from = [&] { return address_of(operation.from, operation.from_offset + from_row); };
  switch (operation.kind) {
    case Operation::Kind::copy_in:
      return driver.copy_in(to(), operation.host_from + from_row, operation.size, stream);
    case Operation::Kind::copy_out:
      return driver.copy_out(operation.host_to + to_row, from(), operation.size, stream);
    case Operation::Kind::copy:
      return driver.copy(to(), from(), operation.size, stream);
    default:
      return driver.fill(to(), static_cast<unsigned char>(operation.value), operation.size, stream);
  }
}

}  // namespace gantry::cuda
