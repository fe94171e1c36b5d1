#include "device/pipeline/staging.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/text_lines.hpp"
#include "device/pipeline/device_run.hpp"
#include "device/pipeline/file_ends.hpp"
#include "device/pipeline/job_check.hpp"

namespace gantry {
namespace {

using Argument = PipelineJob::Argument;

// Kernels write nothing into inputs, so dropping the source's const is safe.
ByteSpan writable(ConstByteSpan bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: as said
}

using Kind = Argument::Kind;
using Clock = Deadline::Clock;

bool is_pinned_mode(PipelineMode mode) noexcept {
  return mode == PipelineMode::sequential_pinned || mode == PipelineMode::overlapped_pinned;
}

bool is_memory(const Argument& array) noexcept {
  const bool is_read = array.reads() || array.kind == Kind::broadcast;
  const bool in = !is_read || array.source.kind == PipelineSource::Kind::memory;
  const bool out = !array.writes() || array.sink.kind == PipelineSink::Kind::memory;
  return in && out;
}

// Page-locking does not write, so dropping the source's const is safe.
ByteSpan memory_of(const Argument& array) noexcept {
  if (array.writes()) return array.sink.bytes;
  return {const_cast<std::byte*>(array.source.bytes.data()),  // NOLINT: as said
          array.source.bytes.size()};
}

bool is_registered(const Argument& array, const Registrar* registrar) {
  if (array.reads() ? array.source.is_registered : array.sink.is_registered) return true;
  const auto& held = array.reads() ? array.source.held : array.sink.held;
  return held != nullptr && registrar != nullptr && held->key_for(*registrar).has_value();
}

Result<void> register_in_place(RunArray& array, Registering& registering) {
  const auto begin = Clock::now();
  auto made = registering.registrar->register_memory(memory_of(*array.argument));
  registering.spent += Clock::now() - begin;
  // Another argument with the same memory, or the user, has registered it.
  if (!made && made.error().code != Code::already_exists)
    return tl::unexpected(std::move(made).error());
  if (made) array.registrations.push_back(*std::move(made));
  array.staging = Staging::in_place;
  return {};
}

Staging staging_by(const PipelineOptions& options, const Registering& registering) noexcept {
  if (is_pinned_mode(options.mode) && options.staging == Staging::automatic)
    return Staging::in_place;
  if (options.mode != PipelineMode::automatic && options.staging == Staging::automatic)
    return Staging::direct;
  if (options.staging != Staging::automatic) return options.staging;
  return registering.registrar != nullptr ? Staging::ring : Staging::direct;
}

void bind_to_ring(RunArray& array, const ZeroCopy& zero_copy) noexcept {
  array.staging = Staging::ring;
  array.is_ring_shared = zero_copy.alignment != 0;
}

Result<void> bind(RunArray& array, const PipelineOptions& options, Registering& registering) {
  const Argument& argument = *array.argument;
  if (is_registered(argument, registering.registrar.get())) {
    array.staging = Staging::registered;
    return {};
  }
  array.staging = staging_by(options, registering);
  return array.staging == Staging::in_place ? register_in_place(array, registering)
                                            : Result<void>{};
}

// ---- without copies ------------------------------------------------------------------------

bool is_shared(const PipelineJob& job, const Argument& argument, std::size_t index,
               const ZeroCopy& zero_copy, PipelinePlan& plan) {
  if (!zero_copy.is_for_callers || !is_memory(argument)) return false;
  const std::string why_not = why_not_shared(job, argument, zero_copy.alignment);
  if (!why_not.empty())
    plan.reasons.push_back(fmt::format("argument {} is copied: {}", index, why_not));
  return why_not.empty();
}

void explain_reshape(const PipelineSource& source, std::size_t index, PipelinePlan& plan) {
  if (source.kind == PipelineSource::Kind::reshaped)
    plan.reasons.push_back(fmt::format("argument {} is converted by the staging copy: {}", index,
                                       source.plan->text()));
}

void explain_zero_copy(std::span<const RunArray> arrays, const DeviceFacts& facts,
                       const ZeroCopy& zero_copy, PipelinePlan& plan) {
  const auto count = std::ranges::count(arrays, Staging::shared, &RunArray::staging);
  if (count != 0)
    plan.reasons.push_back(
        fmt::format("{} of the arguments in place, no copies: {} computes on the caller's memory",
                    count, facts.name));
  if (!zero_copy.why_not.empty())
    plan.reasons.push_back(fmt::format("the caller's memory is copied: {}", zero_copy.why_not));
}

// ---- clamped edges -------------------------------------------------------------------------

/// Reads the steps of an edge.
struct EdgeReader {
  FileLane* files = nullptr;
  Deadline limit;

  /// `to` keeps it for as long as a file's read may go on.
  [[nodiscard]] Result<void> read(const PipelineSource& source, std::uint64_t at,
                                  const std::shared_ptr<std::vector<std::byte>>& to) const {
    switch (source.kind) {
      case PipelineSource::Kind::reader:
        return source.read(at, *to);
      case PipelineSource::Kind::reshaped:
        source.plan->convert(*to, source.bytes, at);
        return {};
      case PipelineSource::Kind::file:
        return transfer_now(*files, read_of(source, at, *to, to), limit);
      default:
        std::ranges::copy(source.bytes.subspan(at, to->size()), to->begin());
        return {};
    }
  }
};

Result<std::vector<std::byte>> repeated_step(const Argument& array, std::uint64_t step,
                                             std::uint64_t times, const EdgeReader& reader) {
  std::vector<std::byte> all(times * array.step_bytes);
  if (times == 0) return all;
  const auto there = std::make_shared<std::vector<std::byte>>(array.step_bytes);
  GANTRY_TRY(reader.read(array.source, step * array.step_bytes, there));
  for (std::uint64_t i = 0; i < times; ++i)
    std::ranges::copy(*there, all.begin() + static_cast<std::ptrdiff_t>(i * array.step_bytes));
  return all;
}

Result<void> bind_edges(RunArray& array, std::uint64_t steps, const EdgeReader& reader) {
  const Argument& argument = *array.argument;
  if (!argument.reads() || argument.halo.edge != Edge::clamp) return {};
  GANTRY_ASSIGN(array.first_step, repeated_step(argument, 0, argument.halo.before, reader));
  GANTRY_ASSIGN(array.last_step, repeated_step(argument, steps - 1, argument.halo.after, reader));
  return {};
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

Result<Registering> make_registering(Device& device, const PipelineOptions& options) {
  Registering registering;
  registering.is_wanted = is_pinned_mode(options.mode) || options.staging == Staging::in_place;
  const bool is_automatic = options.mode == PipelineMode::automatic &&
                            options.staging != Staging::direct && device.facts().registering_pays;
  if (!registering.is_wanted && !is_automatic) {
    registering.why_not = "the device copies memory as it is just as quickly";
    return registering;
  }
  auto registrar = device.registrar();
  if (!registrar && registering.is_wanted) return tl::unexpected(std::move(registrar).error());
  if (registrar)
    registering.registrar = *std::move(registrar);
  else
    registering.why_not = to_string(registrar.error());
  return registering;
}

Result<std::vector<RunArray>> bind_arrays(const PipelineJob& job, const PipelineOptions& options,
                                          const DeviceFacts& facts, const ZeroCopy& zero_copy,
                                          Registering& registering, FileLane* files,
                                          PipelinePlan& plan) {
  const EdgeReader edges{files, limit_of(options)};
  std::vector<RunArray> arrays;
  arrays.reserve(job.arguments().size());
  for (const Argument& argument : job.arguments()) {
    RunArray& array = arrays.emplace_back(RunArray{.argument = &argument});
    const bool is_array = argument.reads() || argument.writes();
    explain_reshape(argument.source, arrays.size() - 1, plan);
    if (argument.kind == Kind::reduction) array.partials_bytes = partials_bytes(argument, facts);
    if (argument.kind == Kind::reduction || (is_array && !is_memory(argument)))
      bind_to_ring(array, zero_copy);
    else if ((is_array || argument.kind == Kind::broadcast) &&
             is_shared(job, argument, arrays.size() - 1, zero_copy, plan))
      array.staging = Staging::shared;
    else if (is_array)
      GANTRY_TRY(bind(array, options, registering));
    if (auto bound = caught([&] { return bind_edges(array, job.steps(), edges); }); !bound)
      return prefixed(bound.error(), "chunk 0: the edge of argument {}", arrays.size() - 1);
  }
  explain_zero_copy(arrays, facts, zero_copy, plan);
  if (registering.registrar == nullptr)
    plan.reasons.push_back(fmt::format("memory is not registered: {}", registering.why_not));
  else
    plan.reasons.push_back(
        fmt::format("{} registers memory for {}", registering.registrar->name(), facts.name));
  return arrays;
}

std::vector<RunArray*> free_to_choose(std::span<RunArray> arrays, const PipelineOptions& options,
                                      const Registering& registering) {
  std::vector<RunArray*> chosen;
  if (options.mode != PipelineMode::automatic || options.staging != Staging::automatic ||
      registering.registrar == nullptr)
    return chosen;
  for (RunArray& array : arrays)
    if (array.staging == Staging::ring && is_memory(*array.argument) &&
        array.argument->kind != Kind::reduction)
      chosen.push_back(&array);
  return chosen;
}

Bytes bytes_of(std::span<RunArray* const> arrays) noexcept {
  Bytes bytes = 0;
  for (const RunArray* array : arrays) bytes += memory_of(*array->argument).size();
  return bytes;
}

void register_all(std::span<RunArray* const> arrays, Registering& registering, PipelinePlan& plan) {
  for (RunArray* array : arrays)
    if (auto made = register_in_place(*array, registering); !made) {
      array->staging = Staging::ring;
      plan.reasons.push_back(
          fmt::format("memory stays with the ring: {}", to_string(made.error())));
    }
}

}  // namespace gantry
