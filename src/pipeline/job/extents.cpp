#include "pipeline/job/extents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace gantry {
namespace {

using Kind = PipelineJob::Argument::Kind;

class Extents {
 public:
  Extents(const PipelineJob::Argument& array, std::uint64_t steps) : array_(array), steps_(steps) {}

  void add(ChunkExtent::Kind kind, std::uint64_t from_step, std::uint64_t count) {
    if (count == 0) return;
    all_.push_back({kind, at_, from_step * array_.step_bytes, count * array_.step_bytes});
    at_ += count * array_.step_bytes;
  }
  /// Adds `count` steps that lie beyond an end; wrapped, the first of them is `from_step`.
  void add_edge(ChunkExtent::Kind clamped, std::uint64_t from_step, std::uint64_t count) {
    if (array_.halo.edge == Edge::zero) return add(ChunkExtent::Kind::zero, 0, count);
    if (array_.halo.edge == Edge::clamp) return add(clamped, 0, count);
    while (count != 0) {
      const std::uint64_t run = std::min(count, steps_ - from_step);
      add(ChunkExtent::Kind::source, from_step, run);
      count -= run;
      from_step = 0;
    }
  }
  [[nodiscard]] std::vector<ChunkExtent> take() noexcept { return std::move(all_); }

 private:
  const PipelineJob::Argument& array_;
  const std::uint64_t steps_;
  Bytes at_ = 0;
  std::vector<ChunkExtent> all_;
};

}  // namespace

std::vector<ChunkExtent> extents_of(const PipelineJob::Argument& array, const Chunk& chunk,
                                    std::uint64_t steps) {
  const std::uint64_t end = chunk.first + chunk.steps;
  const std::uint64_t lead = array.halo.before > chunk.first ? array.halo.before - chunk.first : 0;
  const std::uint64_t tail = array.halo.after > steps - end ? array.halo.after - (steps - end) : 0;
  const std::uint64_t begin = chunk.first - (array.halo.before - lead);
  Extents extents(array, steps);
  extents.add_edge(ChunkExtent::Kind::first_step, (steps - lead % steps) % steps, lead);
  extents.add(ChunkExtent::Kind::source, begin, end + (array.halo.after - tail) - begin);
  extents.add_edge(ChunkExtent::Kind::last_step, 0, tail);
  return extents.take();
}

Bytes buffer_bytes(const PipelineJob::Argument& array, std::uint64_t steps) noexcept {
  if (array.kind == Kind::broadcast) return array.source.size;
  if (array.kind == Kind::reduction) return array.step_bytes;
  if (!array.reads() && !array.writes()) return 0;
  std::uint64_t all = 0;
  if (__builtin_add_overflow(steps, array.halo.before, &all) ||
      __builtin_add_overflow(all, array.halo.after, &all) ||
      __builtin_mul_overflow(all, array.step_bytes, &all))
    return std::numeric_limits<Bytes>::max();
  return all;
}

std::string to_string(const Chunk& chunk) {
  if (chunk.steps == 1) return fmt::format("chunk {} (step {})", chunk.index, chunk.first);
  return fmt::format("chunk {} (steps {} to {})", chunk.index, chunk.first,
                     chunk.first + chunk.steps - 1);
}

}  // namespace gantry
