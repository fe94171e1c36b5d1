#include "pipeline/run/zero_copy.hpp"

#include <algorithm>
#include <numeric>

#include "base/result.hpp"
#include "pipeline/job/extents.hpp"
#include "pipeline/job/job_check.hpp"

namespace gantry {
namespace {

using Argument = PipelineJob::Argument;

// Kernels write nothing into inputs, so dropping the source's const is safe.
ByteSpan writable(ConstByteSpan bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: as said
}

}  // namespace

bool is_aligned(const std::byte* at, Bytes alignment) noexcept {
  return reinterpret_cast<std::uintptr_t>(at) % alignment == 0;
}

Result<ZeroCopy> zero_copy_of(const DeviceFacts& facts, const PipelineOptions& options) {
  const bool is_asked_for = options.staging == Staging::shared;
  const bool is_able = facts.unified_memory && facts.in_place_alignment != 0;
  if (is_asked_for && !is_able)
    return fail(Code::unsupported,
                fmt::format("staging 'shared': {} computes in memory of its own", facts.name),
                "let staging be automatic, or use the device 'cpu'");
  const bool is_automatic =
      options.mode == PipelineMode::automatic && options.staging == Staging::automatic;
  if (!is_able || (!is_automatic && !is_asked_for)) return ZeroCopy{};
  ZeroCopy zero_copy{facts.in_place_alignment, true, {}};
  if (is_asked_for) return zero_copy;
  const bool has_limit = options.stall_limit.count() > 0 || !options.deadline.is_never();
  if (has_limit)
    zero_copy.why_not = "a kernel that is given up when its time is over would go on in it";
  if (options.copier != nullptr) zero_copy.why_not = "a copier was given";
  zero_copy.is_for_callers = zero_copy.why_not.empty();
  return zero_copy;
}

std::string why_not_shared(const PipelineJob& job, const Argument& array, Bytes alignment) {
  const ConstByteSpan bytes = array.writes() ? ConstByteSpan(array.sink.bytes) : array.source.bytes;
  // The begin of a chunk that needs nothing from beyond the ends.
  const std::byte* const at = bytes.data() - array.halo.before * array.step_bytes % alignment;
  if (!is_aligned(at, alignment)) return fmt::format("it begins at no multiple of {}", alignment);
  if (!is_apart(job, array)) return "another argument lies there";
  return {};
}

ChunkCut cut_of(std::span<const RunArray> arrays, std::uint64_t steps, Bytes alignment) {
  ChunkCut cut{1, 0, steps};
  std::uint64_t after = 0;
  for (const RunArray& array : arrays) {
    const Argument& argument = *array.argument;
    if (array.staging != Staging::shared || argument.step_bytes == 0) continue;
    cut.grain = std::max(cut.grain, alignment / std::gcd(alignment, argument.step_bytes));
    cut.head = std::max(cut.head, argument.halo.before);
    after = std::max(after, argument.halo.after);
  }
  const ChunkCut whole{cut.grain, 0, steps};
  if (cut.head >= steps / 4 || after >= steps / 4) return whole;
  cut.head = (cut.head + cut.grain - 1) / cut.grain * cut.grain;
  if (after != 0) cut.tail = (steps - after) / cut.grain * cut.grain;
  return cut.head < cut.tail ? cut : whole;
}

ByteSpan shared_memory(const Argument& array, const Chunk& chunk, std::uint64_t steps,
                       Bytes alignment) {
  ByteSpan memory;
  if (array.reads() && !array.writes()) {
    const auto extents = extents_of(array, chunk, steps);
    if (extents.size() != 1 || extents.front().kind != ChunkExtent::Kind::source) return {};
    memory = writable(array.source.bytes.subspan(extents.front().from, extents.front().size));
  } else {
    memory =
        array.sink.bytes.subspan(chunk.first * array.step_bytes, chunk.steps * array.step_bytes);
  }
  return is_aligned(memory.data(), alignment) ? memory : ByteSpan();
}

ByteSpan shared_whole(const PipelineSource& source) noexcept {
  return writable(source.bytes);
}

ByteSpan shared_message(const Argument& input, const Chunk& chunk, ConstByteSpan part,
                        Bytes alignment) {
  const auto extents = extents_of(input, chunk, chunk.steps);
  const bool is_whole = extents.size() == 1 && extents.front().kind == ChunkExtent::Kind::source;
  return is_whole && is_aligned(part.data(), alignment) ? writable(part) : ByteSpan();
}

}  // namespace gantry
