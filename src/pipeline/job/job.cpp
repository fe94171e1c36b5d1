#include <gantry/pipeline/pipeline.hpp>

#include "base/result.hpp"

namespace gantry {

// ---- sources and sinks ---------------------------------------------------------------------

PipelineSource PipelineSource::memory(ConstByteSpan bytes) {
  PipelineSource source;
  source.size = bytes.size();
  source.bytes = bytes;
  source.name = "memory";
  return source;
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
  PipelineSource source;
  source.kind = Kind::reshaped;
  source.size = plan.destination_bytes();
  source.bytes = from;
  source.plan = std::move(plan);
  source.name = "reshaped memory";
  return source;
}

PipelineSource PipelineSource::reader(std::uint64_t size, Read read) {
  PipelineSource source;
  source.kind = Kind::reader;
  source.size = size;
  source.read = std::move(read);
  source.name = "reader";
  return source;
}

PipelineSource PipelineSource::message(std::size_t segment) {
  PipelineSource source;
  source.kind = Kind::message;
  source.segment = segment;
  source.name = "message";
  return source;
}

PipelineSink PipelineSink::memory(ByteSpan bytes) {
  PipelineSink sink;
  sink.size = bytes.size();
  sink.bytes = bytes;
  sink.name = "memory";
  return sink;
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
  PipelineSink sink;
  sink.kind = Kind::writer;
  sink.size = size;
  sink.write = std::move(write);
  sink.name = "writer";
  return sink;
}

PipelineSink PipelineSink::message() {
  PipelineSink sink;
  sink.kind = Kind::message;
  sink.name = "message";
  return sink;
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

}  // namespace gantry
