#include "device/pipeline/device_run.hpp"

#include <algorithm>

#include "core/base/result.hpp"
#include "device/pipeline/file_ends.hpp"

namespace gantry {

Result<RunQueues> RunQueues::open(Device& device, bool is_one) {
  RunQueues queues;
  const auto add = [&](QueueRole role) -> Result<DeviceQueue*> {
    GANTRY_ASSIGN(auto queue, device.open_queue(role));
    queues.own.push_back(std::move(queue));
    return queues.own.back().get();
  };
  GANTRY_ASSIGN(queues.compute, add(QueueRole::compute));
  queues.copy_in = queues.copy_out = queues.compute;
  if (is_one) return queues;
  GANTRY_ASSIGN(queues.copy_in, add(QueueRole::copy_in));
  GANTRY_ASSIGN(queues.copy_out, add(QueueRole::copy_out));
  return queues;
}

void halt_queues(Device& device, RunQueues& queues, const PipelineOptions& options) noexcept {
  if (!device.state()) return;
  for (const auto& queue : queues.own) queue->cancel();
  const Deadline until = grace_of(options);
  // The copying queues first: when a kernel costs the device, none of them touches the caller's
  // memory.
  for (auto at = queues.own.rbegin(); at != queues.own.rend(); ++at) {
    const auto drained = (*at)->drain(until);
    if (!drained && drained.error().code == Code::timed_out)
      return device.abandon("a kernel of a pipeline did not end in its time");
  }
}

Result<DeviceBuffer> bring_broadcast(Device& device, DeviceQueue& queue,
                                     const PipelineSource& source,
                                     const std::shared_ptr<FileIo>& file_io, Deadline limit) {
  constexpr Bytes kPart = Bytes{8} << 20;  // part of a source that is not in memory
  GANTRY_ASSIGN(DeviceBuffer whole, device.allocate(source.size));
  if (source.kind == PipelineSource::Kind::memory) {
    GANTRY_ASSIGN(const DeviceEvent event, queue.copy_in(whole, 0, source.bytes, source.held));
    GANTRY_TRY(event.wait(limit));
    return whole;
  }
  std::unique_ptr<FileLane> lane;
  if (source.kind == PipelineSource::Kind::file) {
    std::string how;
    GANTRY_ASSIGN(lane, open_file_lane(device, file_io, FileTransfer::Kind::read, how));
  }
  const auto fetch = [&](std::uint64_t at, ByteSpan to) -> Result<void> {
    if (source.kind != PipelineSource::Kind::reshaped) return source.read(at, to);
    source.plan->convert(to, source.bytes, at);
    return {};
  };
  auto part = std::make_shared<std::vector<std::byte>>(std::min<Bytes>(kPart, source.size));
  for (Bytes at = 0; at < source.size; at += kPart) {
    const ByteSpan bytes = ByteSpan(*part).first(std::min<Bytes>(part->size(), source.size - at));
    GANTRY_TRY(lane != nullptr ? transfer_now(*lane, read_of(source, at, bytes, part), limit)
                               : fetch(at, bytes));
    GANTRY_ASSIGN(const DeviceEvent event, queue.copy_in(whole, at, bytes, part));
    GANTRY_TRY(event.wait(limit));
  }
  return whole;
}

Result<void> launch_kernel(DeviceQueue& queue, const Kernel& kernel, const PipelineJob& job,
                           const Chunk& chunk, std::span<const DeviceBuffer* const> buffers,
                           ChunkSlot::Stage& stage) {
  using Of = PipelineJob::Argument::Kind;
  std::vector<KernelArgument> arguments;
  arguments.reserve(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const PipelineJob::Argument& argument = job.arguments()[i];
    switch (argument.kind) {
      case Of::value:
        arguments.push_back(*argument.value);
        break;
      case Of::count:
        arguments.emplace_back(chunk.steps);
        break;
      case Of::first:
        arguments.emplace_back(chunk.first);
        break;
      case Of::reduction:
        arguments.push_back(KernelArgument::partials(*buffers[i], argument.step_bytes));
        break;
      default:
        arguments.emplace_back(*buffers[i]);
    }
    if (argument.kind != Of::reduction) continue;
    GANTRY_TRY(stage.add(queue.fill(*buffers[i], 0, buffers[i]->size(), argument.initial)));
  }
  return stage.add(queue.launch(kernel, arguments, job.range_for(chunk.steps)));
}

Bytes partials_bytes(const PipelineJob::Argument& reduction, const DeviceFacts& device) noexcept {
  if (device.partials <= 1) return reduction.step_bytes;
  return device.partials * KernelArgument::partial_room(reduction.step_bytes);
}

Result<void> fold_partials(const PipelineJob::Argument& reduction, ConstByteSpan all, Chunk chunk) {
  const Bytes size = reduction.step_bytes;
  for (Bytes at = 0; at + size <= all.size(); at += KernelArgument::partial_room(size)) {
    const ConstByteSpan partial = all.subspan(at, size);
    const bool is_untouched = std::ranges::count(partial, reduction.initial) == std::ssize(partial);
    if (at != 0 && is_untouched) continue;
    GANTRY_TRY(reduction.fold(partial, chunk));
    if (at != 0) continue;
    chunk.first += chunk.steps;
    chunk.steps = 0;
  }
  return {};
}

}  // namespace gantry
