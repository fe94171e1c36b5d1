#include "device/pipeline/job_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

using Argument = PipelineJob::Argument;
using Kind = Argument::Kind;

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

constexpr unsigned kMostDepthWanted = 64;

tl::unexpected<Error> bad(std::size_t index, std::string_view what, std::string hint = {}) {
  return fail(Code::invalid_argument, fmt::format("argument {}: {}", index, what), std::move(hint));
}

/// Whether it is memory, or made of memory.
bool is_in_memory(const PipelineSource& source) noexcept {
  return source.kind == PipelineSource::Kind::memory ||
         source.kind == PipelineSource::Kind::reshaped;
}

// ---- sizes ---------------------------------------------------------------------------------

Result<void> check_size(std::size_t index, std::string_view name, std::uint64_t size,
                        std::uint64_t steps, Bytes step_bytes) {
  std::uint64_t wanted = 0;
  if (__builtin_mul_overflow(steps, std::uint64_t{step_bytes}, &wanted))
    return bad(index,
               fmt::format("{} steps of {} bytes are more than 64 bits count", steps, step_bytes));
  if (size == wanted) return {};
  return bad(index,
             fmt::format("{} of {} bytes does not correspond to {} steps of {} bytes, which are {}",
                         name, size, steps, step_bytes, wanted));
}

Result<void> check_halo(std::size_t index, const Argument& array) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;  // far beyond any memory
  constexpr Bytes kMostBytes = Bytes{1} << 48;             // likewise, and slots can be added up
  constexpr std::uint64_t kMostTurns = std::uint64_t{1} << 20;  // each is an extent of its own
  const Halo& halo = array.halo;
  if (halo.before > kMost || halo.after > kMost ||
      (array.kind != Kind::broadcast && buffer_bytes(array, 1) > kMostBytes))
    return bad(index, fmt::format("a step of {} bytes with a halo of {} and {} steps",
                                  array.step_bytes, halo.before, halo.after));
  const std::uint64_t steps = array.source.size / std::max<Bytes>(array.step_bytes, 1);
  if (halo.edge == Edge::wrap && steps != 0 && (halo.before + halo.after) / steps > kMostTurns)
    return bad(index, fmt::format("a halo of {} and {} steps that wraps round {} steps",
                                  halo.before, halo.after, steps));
  return {};
}

Result<void> check_reshape(std::size_t index, const PipelineSource& source) {
  if (!source.plan || source.size != source.plan->destination_bytes())
    return bad(index, "it has no plan for its bytes", "use PipelineSource::reshaped()");
  if (source.bytes.size() >= source.plan->source_bytes()) return {};
  return bad(index,
             fmt::format("{} bytes of memory, and the plan reads {}: {}", source.bytes.size(),
                         source.plan->source_bytes(), source.plan->text()));
}

Result<void> check_ends(std::size_t index, const Argument& array) {
  const PipelineSource& source = array.source;
  const PipelineSink& sink = array.sink;
  const bool reads = array.reads() || array.kind == Kind::broadcast;
  if (reads && source.kind == PipelineSource::Kind::reader && !source.read)
    return bad(index, "its reader is empty");
  if (array.writes() && sink.kind == PipelineSink::Kind::writer && !sink.write)
    return bad(index, "its writer is empty");
  if ((source.kind == PipelineSource::Kind::file && source.opened == nullptr) ||
      (sink.kind == PipelineSink::Kind::file && sink.opened == nullptr))
    return bad(index, "a file that is not open", "PipelineSource::file(), PipelineSink::file()");
  if (reads && source.kind == PipelineSource::Kind::reshaped)
    GANTRY_TRY(check_reshape(index, source));
  const bool is_null =
      (reads && is_in_memory(source) && source.bytes.data() == nullptr) ||
      (array.writes() && sink.kind == PipelineSink::Kind::memory && sink.bytes.data() == nullptr);
  return is_null ? bad(index, "memory at address 0") : Result<void>{};
}

bool is_of_messages(const Argument& array) noexcept {
  return array.source.kind == PipelineSource::Kind::message ||
         array.sink.kind == PipelineSink::Kind::message;
}

Result<void> check_argument(std::size_t index, const Argument& array, std::uint64_t steps) {
  if (array.kind == Kind::reduction && !array.fold) return bad(index, "a reduction without a fold");
  if (array.kind == Kind::broadcast && array.source.size == 0)
    return bad(index, "a broadcast of 0 bytes");
  if (array.kind == Kind::value && !array.value) return bad(index, "no value");
  if (array.kind == Kind::value && array.value->is_buffer())
    return bad(index, "a buffer as a value", "use input(), output() or broadcast()");
  if (array.kind == Kind::in_place && array.sink.kind != PipelineSink::Kind::memory)
    return bad(index, fmt::format("in place of {}", array.sink.name), "it is for memory");
  const bool is_array = array.reads() || array.writes();
  if ((is_array || array.kind == Kind::reduction) && array.step_bytes == 0)
    return bad(index, "0 bytes per step");
  if (array.kind == Kind::reduction) return check_halo(index, array);
  if (!is_array && array.kind != Kind::broadcast) return {};
  if (is_of_messages(array)) return check_halo(index, array);
  GANTRY_TRY(check_ends(index, array));
  GANTRY_TRY(check_halo(index, array));
  if (array.reads())
    GANTRY_TRY(check_size(index, array.source.name, array.source.size, steps, array.step_bytes));
  if (array.writes())
    GANTRY_TRY(check_size(index, array.sink.name, array.sink.size, steps, array.step_bytes));
  return {};
}

// ---- who lies where ------------------------------------------------------------------------

/// Where an array lies: memory, or a range of a file.
struct Place {
  std::array<std::uint64_t, 2> space{};  // for a file: device and inode
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  [[nodiscard]] bool overlaps(const Place& other) const noexcept {
    return space == other.space && begin < other.begin + other.size && other.begin < begin + size;
  }
};

template <class End>  // a source or a sink
std::optional<Place> place_of(const End& end) noexcept {
  if (end.kind == End::Kind::memory)
    return Place{{}, reinterpret_cast<std::uintptr_t>(end.bytes.data()), end.size};
  if (end.file_range == std::array<std::uint64_t, 3>{}) return std::nullopt;
  return Place{{end.file_range[0], end.file_range[1]}, end.file_range[2], end.size};
}

std::optional<Place> read_place(const Argument& array) noexcept {
  if (!array.reads() && array.kind != Kind::broadcast) return std::nullopt;
  if (array.source.kind == PipelineSource::Kind::reshaped)
    return Place{
        {}, reinterpret_cast<std::uintptr_t>(array.source.bytes.data()), array.source.bytes.size()};
  return place_of(array.source);
}

std::optional<Place> written_place(const Argument& array) noexcept {
  return array.writes() ? place_of(array.sink) : std::nullopt;
}

bool overlap(const std::optional<Place>& one, const std::optional<Place>& other) noexcept {
  return one && other && one->overlaps(*other);
}

// True if a chunk reads step for step what it later overwrites, and no other chunk does.
bool is_step_for_step(const Argument& out, const Argument& in) noexcept {
  return in.reads() && in.source.kind != PipelineSource::Kind::reshaped &&
         written_place(out)->begin == read_place(in)->begin && out.step_bytes == in.step_bytes &&
         in.halo.before == 0 && in.halo.after == 0;
}

Result<void> check_aliases(const std::vector<Argument>& all) {
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < all.size(); ++j) {
      if (i < j && overlap(written_place(all[i]), written_place(all[j])))
        return bad(j, fmt::format("its output overlaps that of argument {}", i));
      if (i != j && overlap(written_place(all[i]), read_place(all[j])) &&
          !is_step_for_step(all[i], all[j]))
        return bad(i,
                   fmt::format("the output overlaps what argument {} reads, and from chunk 0 on "
                               "steps would be read that were written before",
                               j),
                   "let it begin where the input does with as many bytes per step and no halo, "
                   "or give it memory of its own");
    }
  return {};
}

Result<void> check_options(const PipelineOptions& options) {
  if (options.depth > kMostDepthWanted)
    return fail(Code::invalid_argument,
                fmt::format("a depth of {}; at most {}", options.depth, kMostDepthWanted));
  if (options.staging == Staging::registered)
    return fail(Code::invalid_argument, "staging 'registered' cannot be asked for",
                "say which memory is: PipelineSource::registered()");
  return {};
}

Result<void> check_results(const PipelineJob& job) {
  for (const Argument& array : job.arguments())
    if (array.writes() || array.kind == Kind::reduction) return {};
  return fail(Code::invalid_argument, "the job has neither an output nor a reduction");
}

}  // namespace

std::vector<ChunkExtent> extents_of(const PipelineJob::Argument& array, const Chunk& chunk,
                                    std::uint64_t steps) {
  const std::uint64_t end = chunk.first + chunk.steps;
  GANTRY_DEBUG_ASSERT(end <= steps);
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

Result<void> check_job(const PipelineJob& job, const PipelineOptions& options) {
  GANTRY_TRY(check_options(options));
  if (job.steps() == 0) return fail(Code::invalid_argument, "a job of 0 steps");
  GANTRY_TRY(check_results(job));
  std::size_t index = 0;
  for (const Argument& array : job.arguments()) {
    if (is_of_messages(array))
      return bad(index, "messages are for run_stage()", "give it memory, a file or a reader");
    GANTRY_TRY(check_argument(index++, array, job.steps()));
  }
  return check_aliases(job.arguments());
}

Result<void> check_stage(const PipelineJob& job, const PipelineOptions& options) {
  GANTRY_TRY(check_options(options));
  std::size_t index = 0, inputs = 0, outputs = 0;
  for (const Argument& array : job.arguments()) {
    if ((array.reads() || array.writes()) && !is_of_messages(array))
      return bad(index, "an array of a stage that does not hold messages",
                 "use PipelineSource::message(), PipelineSink::message() or broadcast()");
    inputs += array.reads() ? 1 : 0;
    outputs += array.writes() ? 1 : 0;
    GANTRY_TRY(check_argument(index++, array, 0));
  }
  if (inputs != 0 && outputs == 1) return {};
  return fail(Code::invalid_argument,
              fmt::format("a stage with {} inputs and {} outputs; it has one input or more, and "
                          "one output",
                          inputs, outputs));
}

bool is_apart(const PipelineJob& job, const PipelineJob::Argument& array) noexcept {
  return std::ranges::none_of(job.arguments(), [&](const Argument& other) {
    return &other != &array && (overlap(written_place(array), read_place(other)) ||
                                overlap(written_place(other), read_place(array)));
  });
}

bool overwrites_inputs(const PipelineJob& job) noexcept {
  for (const Argument& out : job.arguments())
    for (const Argument& in : job.arguments())
      if (overlap(written_place(out), read_place(in))) return true;
  return false;
}

}  // namespace gantry
