#include "pipeline/run/kernel_launch.hpp"

#include "base/result.hpp"

namespace gantry {

Result<void> launch_kernel(DeviceQueue& queue, const Kernel& kernel, const PipelineJob& job,
                           const Chunk& chunk, std::span<const DeviceBuffer* const> buffers,
                           ChunkSlot::Stage& stage) {
  using Kind = PipelineJob::Argument::Kind;
  std::vector<KernelArgument> arguments;
  arguments.reserve(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const PipelineJob::Argument& argument = job.arguments()[i];
    switch (argument.kind) {
      case Kind::value:
        arguments.push_back(*argument.value);
        break;
      case Kind::count:
        arguments.emplace_back(chunk.steps);
        break;
      case Kind::first:
        arguments.emplace_back(chunk.first);
        break;
      case Kind::reduction:
        arguments.push_back(KernelArgument::partials(*buffers[i], argument.step_bytes));
        break;
      default:
        arguments.emplace_back(*buffers[i]);
    }
    if (argument.kind != Kind::reduction) continue;
    GANTRY_ASSIGN(const DeviceEvent cleared,
                  queue.fill(*buffers[i], 0, buffers[i]->size(), argument.initial));
    stage.add(cleared);
  }
  GANTRY_ASSIGN(const DeviceEvent launched,
                queue.launch(kernel, arguments, job.range_for(chunk.steps)));
  stage.add(launched);
  return {};
}

}  // namespace gantry
