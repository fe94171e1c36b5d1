#include <fmt/format.h>

#include <algorithm>
#include <gantry/pipeline.hpp>

#include "core/base/result.hpp"

namespace gantry {

// ---- sources and sinks ---------------------------------------------------------------------

PipelineSource PipelineSource::memory(ConstByteSpan bytes) {
  return {.size = bytes.size(), .bytes = bytes, .name = "memory"};
}

PipelineSource PipelineSource::registered(ConstByteSpan bytes) {
  PipelineSource source = memory(bytes);
  source.is_registered = true;
  return source;
}

PipelineSource PipelineSource::block(const Block& block) {
  PipelineSource source = memory(block.bytes());
  if (block) source.held = std::make_shared<Block>(block.share());
  return source;
}

PipelineSource PipelineSource::reshaped(ConstByteSpan from, ReshapePlan plan) {
  const std::uint64_t size = plan.destination_bytes();
  return {.kind = Kind::reshaped,
          .size = size,
          .bytes = from,
          .plan = std::move(plan),
          .name = "reshaped memory"};
}

PipelineSource PipelineSource::reader(std::uint64_t size, Read read) {
  return {.kind = Kind::reader, .size = size, .read = std::move(read), .name = "reader"};
}

PipelineSource PipelineSource::message(std::size_t segment) {
  return {.kind = Kind::message, .segment = segment, .name = "message"};
}

PipelineSink PipelineSink::memory(ByteSpan bytes) {
  return {.size = bytes.size(), .bytes = bytes, .name = "memory"};
}

PipelineSink PipelineSink::registered(ByteSpan bytes) {
  PipelineSink sink = memory(bytes);
  sink.is_registered = true;
  return sink;
}

PipelineSink PipelineSink::block(const Block& block) {
  PipelineSink sink = memory(block.bytes());
  if (block) sink.held = std::make_shared<Block>(block.share());
  return sink;
}

PipelineSink PipelineSink::writer(std::uint64_t size, Write write) {
  return {.kind = Kind::writer, .size = size, .write = std::move(write), .name = "writer"};
}

PipelineSink PipelineSink::message() {
  return {.kind = Kind::message, .name = "message"};
}

// ---- jobs ----------------------------------------------------------------------------------

PipelineJob& PipelineJob::input(PipelineSource from, Bytes step_bytes, Halo halo) {
  arguments_.push_back({.kind = Argument::Kind::input,
                        .source = std::move(from),
                        .step_bytes = step_bytes,
                        .halo = halo});
  return *this;
}

PipelineJob& PipelineJob::output(PipelineSink to, Bytes step_bytes) {
  arguments_.push_back(
      {.kind = Argument::Kind::output, .sink = std::move(to), .step_bytes = step_bytes});
  return *this;
}

PipelineJob& PipelineJob::in_place(ByteSpan memory, Bytes step_bytes) {
  return in_place(PipelineSink::memory(memory), step_bytes);
}

PipelineJob& PipelineJob::in_place(PipelineSink memory, Bytes step_bytes) {
  PipelineSource same = PipelineSource::memory(memory.bytes);
  same.is_registered = memory.is_registered;
  same.held = memory.held;
  arguments_.push_back({.kind = Argument::Kind::in_place,
                        .source = std::move(same),
                        .sink = std::move(memory),
                        .step_bytes = step_bytes});
  return *this;
}

PipelineJob& PipelineJob::broadcast(PipelineSource from) {
  arguments_.push_back({.kind = Argument::Kind::broadcast, .source = std::move(from)});
  return *this;
}

PipelineJob& PipelineJob::reduction(Bytes bytes, Fold fold, std::byte initial) {
  arguments_.push_back({.kind = Argument::Kind::reduction,
                        .step_bytes = bytes,
                        .fold = std::move(fold),
                        .initial = initial});
  return *this;
}

PipelineJob& PipelineJob::value(const KernelArgument& value) {
  arguments_.push_back({.kind = Argument::Kind::value, .value = value});
  return *this;
}

PipelineJob& PipelineJob::local(Bytes bytes) {
  return value(KernelArgument::local(bytes));
}

PipelineJob& PipelineJob::count() {
  arguments_.push_back({.kind = Argument::Kind::count});
  return *this;
}

PipelineJob& PipelineJob::first() {
  arguments_.push_back({.kind = Argument::Kind::first});
  return *this;
}

PipelineJob& PipelineJob::range(Range range) {
  range_ = std::move(range);
  return *this;
}

LaunchRange PipelineJob::range_for(std::uint64_t steps) const {
  return range_ ? range_(steps) : LaunchRange::linear(steps);
}

PipelineJob PipelineJob::with_kernel(Kernel kernel) const {
  PipelineJob same = *this;
  same.kernel_ = std::move(kernel);
  return same;
}

PipelineJob& PipelineJob::set_fold(std::size_t index, Fold fold) {
  arguments_.at(index).fold = std::move(fold);
  return *this;
}

Result<Kernel> PipelineJob::kernel_on(Device& device) const {
  if (kernel_) return kernel_;
  GANTRY_ASSIGN(const Program program, device.build(source_));
  return program.kernel(kernel_name_);
}

std::string_view to_string(PipelineMode mode) noexcept {
  static constexpr std::string_view kNames[] = {"automatic",         "sequential",
                                                "sequential-pinned", "overlapped-pageable",
                                                "overlapped-pinned", "unbatched"};
  const auto index = static_cast<std::size_t>(mode);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

std::string_view to_string(Staging staging) noexcept {
  static constexpr std::string_view kNames[] = {"automatic", "direct",     "ring",
                                                "in-place",  "registered", "shared"};
  const auto index = static_cast<std::size_t>(staging);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

std::string PipelinePlan::text() const {
  std::string text = fmt::format(
      "{}: {} chunks of {} steps, {} under way; {} bytes of the device, "
      "{} of the host for staging\n",
      to_string(mode), chunks, chunk_steps, depth, device_bytes, ring_bytes);
  for (std::size_t i = 0; i < staging.size(); ++i)
    if (staging[i] != Staging::automatic)
      text += fmt::format("  argument {}: {}{}\n", i, to_string(staging[i]),
                          staging[i] == Staging::shared ? " (in place, no copies)" : "");
  for (const std::string& reason : reasons) text += fmt::format("  {}\n", reason);
  return text;
}

std::string PipelineStageReport::text() const {
  using Seconds = std::chrono::duration<double>;
  std::string text = fmt::format(
      "{}: {} messages in {:.2f} s, {} under way; {:.1f} MB in, {:.1f} MB out\n"
      "  at work: copy-in {:.2f} s, compute {:.2f} s, copy-out {:.2f} s\n",
      device, messages, Seconds(elapsed).count(), depth, static_cast<double>(bytes_in) / 1e6,
      static_cast<double>(bytes_out) / 1e6, Seconds(copy_in).count(), Seconds(compute).count(),
      Seconds(copy_out).count());
  if (read_in_place + written_in_place != 0)
    text += fmt::format(
        "  in place, no copies: {} messages computed on where they lie, {} results written where "
        "they are sent from\n",
        read_in_place, written_in_place);
  for (const std::string& reason : reasons) text += fmt::format("  {}\n", reason);
  return text;
}

}  // namespace gantry
