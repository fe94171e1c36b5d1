#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/result.hpp"
#include "group/group.hpp"
#include "schedule/collectives/meaning.hpp"
#include "schedule/plan.hpp"

namespace gantry {
namespace {

bool has_result(const CollectiveCall& call) noexcept {
  return call.kind == CollectiveKind::all_to_all;
}

/// As pick_collective() calls it.
std::string_view name_of_programs(const CollectiveCall& call) noexcept {
  return has_result(call) && !call.counts.empty() ? "all-to-all-counts" : to_string(call.kind);
}

Bytes element_bytes_of(const CollectiveTensor& tensor) noexcept {
  return tensor.type.bits / kBitsOfByte;
}

Bytes bytes_of(const CollectiveTensor& tensor) noexcept {
  return static_cast<Bytes>(tensor.size) * element_bytes_of(tensor);
}

// ---- what is asked for -----------------------------------------------------------------------

Result<void> check_tensor(const CollectiveTensor& tensor, std::string_view which) {
  const auto wrong = [&](std::string what, std::string hint = {}) {
    return fail(Code::invalid_argument, fmt::format("{}: {}", which, what), std::move(hint));
  };
  if (name_of(tensor.type).empty())
    return wrong("no plan has its type", "f64, f32, f16, bf16, i32 or i64");
  if (tensor.size < 0 || tensor.size > kMostRows)
    return wrong(fmt::format("{} elements; 0 to {}", tensor.size, kMostRows));
  if (tensor.size > 0 && tensor.data == nullptr)
    return wrong(fmt::format("{} elements in no memory", tensor.size));
  if (tensor.region == nullptr || tensor.size == 0) return {};
  const std::byte* const first = tensor.region->data();
  if (tensor.data < first || tensor.data > first + tensor.region->size() ||
      bytes_of(tensor) > static_cast<Bytes>(first + tensor.region->size() - tensor.data))
    return wrong("it does not lie in its region");
  return {};
}

Result<void> check_result(const CollectiveCall& call) {
  GANTRY_TRY(check_tensor(call.result, "the result"));
  if (call.result.type != call.tensor.type)
    return fail(Code::invalid_argument, "tensor and result have different types");
  const std::byte* const one = call.tensor.data;
  const std::byte* const other = call.result.data;
  if (call.tensor.size > 0 && call.result.size > 0 && one < other + bytes_of(call.result) &&
      other < one + bytes_of(call.tensor))
    return fail(Code::invalid_argument, "tensor and result overlap");
  return {};
}

/// The most elements that any rank has for others or gets.
Result<std::int64_t> most_of(std::span<const std::int64_t> counts, unsigned ranks) {
  if (counts.size() != std::size_t{ranks} * ranks)
    return fail(Code::invalid_argument, fmt::format("{} counts for {} ranks", counts.size(), ranks),
                "one for each rank and each rank that it goes to");
  std::int64_t most = 0;
  for (unsigned r = 0; r < ranks; ++r) {
    std::int64_t has = 0;
    std::int64_t gets = 0;
    for (unsigned q = 0; q < ranks; ++q) {
      for (const std::int64_t count : {counts[r * ranks + q], counts[q * ranks + r]})
        if (count < 0 || count > kMostRows)
          return fail(Code::invalid_argument, fmt::format("a count of {}", count));
      has += counts[std::size_t{r} * ranks + q];  // at most 256 * 2^40
      gets += counts[std::size_t{q} * ranks + r];
    }
    most = std::max({most, has, gets});
  }
  return most;
}

Result<CollectiveShape> shape_of(const CollectiveCall& call, unsigned ranks) {
  GANTRY_TRY(check_tensor(call.tensor, "the tensor"));
  if (has_result(call)) GANTRY_TRY(check_result(call));
  CollectiveShape shape{.ranks = ranks, .size = call.tensor.size, .type = call.tensor.type};
  if (call.kind == CollectiveKind::broadcast) shape.root = call.root;
  if (shape.root >= ranks)
    return fail(Code::invalid_argument, fmt::format("root {} of {} ranks", shape.root, ranks));
  if (!has_result(call) || call.counts.empty()) return shape;
  GANTRY_ASSIGN(shape.size, most_of(call.counts, ranks));
  shape.counts = call.counts;
  return shape;
}

Result<void> check_room(const CollectiveCall& call, const CollectiveMeaning& meaning) {
  const auto has_room = [](const CollectiveTensor& tensor, std::int64_t size,
                           std::string_view which) -> Result<void> {
    if (tensor.size >= size) return {};
    return fail(Code::invalid_argument,
                fmt::format("{} has room for {} elements; it takes {}", which, tensor.size, size));
  };
  GANTRY_TRY(has_room(call.tensor, meaning.given_size, "the tensor"));
  if (has_result(call)) return has_room(call.result, meaning.wanted_size, "the result");
  return {};
}

// ---- which program ---------------------------------------------------------------------------

// Of the links that the group has; a rank alone has none, and nothing to decide.
LinkKind kind_of_links(Group::Impl& group) noexcept {
  for (unsigned peer = 0; peer < group.ranks(); ++peer)
    if (peer != group.rank() && group.link(peer).kind() != LinkKind::shared)
      return group.link(peer).kind();
  return LinkKind::shared;
}

Result<CollectiveChoice> choose_program(Group::Impl& group, const CollectiveCall& call,
                                        const CollectiveShape& shape,
                                        const CollectiveOptions& options) {
  CollectiveChoice choice{.program = options.program, .variant = {}, .reason = "it was asked for"};
  if (options.program.empty()) {
    GANTRY_ASSIGN(choice,
                  pick_collective(name_of_programs(call), shape.ranks,
                                  static_cast<Bytes>(shape.size) * element_bytes_of(call.tensor),
                                  options.thresholds.value_or(
                                      collective_thresholds(kind_of_links(group), group.ranks()))));
  }
  if (!options.variant.empty()) choice.variant = options.variant;
  if (options.chunks != 0) choice.chunks = options.chunks;
  return choice;
}

Result<Plan> plan_for(const CollectiveChoice& choice, const CollectiveProgram& program,
                      CollectiveShape shape, const CollectiveMeaning& meaning) {
  shape.variant = choice.variant;
  shape.chunks = choice.chunks;
  GANTRY_ASSIGN(Plan plan, expand(program, shape));
  GANTRY_TRY(check_meaning(plan, meaning));
  return plan;
}

/// By tensor of the plan: what the caller has; nothing for scratch.
std::vector<PlanMemory> memory_of(const Plan& plan, const CollectiveCall& call) {
  std::vector<PlanMemory> memory;
  for (const PlanTensor& tensor : plan.tensors) {
    const bool is_result = has_result(call) && tensor.name == kCollectiveResult;
    const bool is_own = is_result || tensor.name == kCollectiveTensor;
    const CollectiveTensor& own = is_result ? call.result : call.tensor;
    memory.push_back(is_own ? PlanMemory{own.data, 0, own.region} : PlanMemory{});
  }
  return memory;
}

Result<PlanRun> run_once(Group& group, const CollectiveCall& call, const CollectiveOptions& options,
                         Deadline deadline) {
  GANTRY_ASSIGN(Collective prepared, Collective::prepare(group, call, options, deadline));
  return prepared.run(deadline);
}

}  // namespace

std::string_view to_string(CollectiveKind kind) noexcept {
  constexpr std::string_view kNames[] = {"all-gather", "reduce-scatter", "all-reduce", "all-to-all",
                                         "broadcast"};
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

// On shared memory who gets copies at once, and needs nobody's answer to begin; what is not added
// is copied once, straight from where it is.
CollectiveThresholds collective_thresholds(LinkKind kind, unsigned ranks) noexcept {
  CollectiveThresholds sizes;
  // Of two ranks a ring sends no more than each with each, and adds while the next chunk comes.
  sizes.at_once = ranks == 2 ? Bytes{512} << 10 : Bytes{16} << 20;
  if (kind == LinkKind::shared) {
    sizes.eager = 0;
    sizes.direct = Bytes{256} << 10;
    sizes.moved_at_once = std::numeric_limits<Bytes>::max();
  } else {
    sizes.eager = Bytes{1} << 20;
    sizes.moved_at_once = Bytes{32} << 20;
  }
  return sizes;
}

// ---- a prepared one --------------------------------------------------------------------------

struct Collective::Impl {
  CollectiveChoice choice;
  PlanBuffers buffers;
  std::optional<PlanExecutor> executor;  // uses the buffers
};

Collective::Collective(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Collective::Collective(Collective&&) noexcept = default;
Collective& Collective::operator=(Collective&&) noexcept = default;
Collective::~Collective() = default;

Result<Collective> Collective::prepare(Group& group, const CollectiveCall& call,
                                       const CollectiveOptions& options, Deadline deadline) {
  return guarded([&]() -> Result<Collective> {
    Group::Impl& ranks = group.impl();
    if (ranks.failure()) return tl::unexpected(*ranks.failure());
    const auto make = [&]() -> Result<Collective> {
      auto impl = std::make_unique<Impl>();
      GANTRY_ASSIGN(const CollectiveShape shape, shape_of(call, ranks.ranks()));
      const CollectiveMeaning meaning = meaning_of(call.kind, shape);
      GANTRY_TRY(check_room(call, meaning));
      GANTRY_ASSIGN(impl->choice, choose_program(ranks, call, shape, options));
      GANTRY_ASSIGN(const CollectiveProgram program, load_collective(impl->choice.program));
      const auto of_program = [&](Error error) {  // a file's path, if it is one
        error.message = fmt::format("{}: {}", impl->choice.program, error.message);
        return error;
      };
      GANTRY_ASSIGN(const Plan plan,
                    plan_for(impl->choice, program, shape, meaning).map_error(of_program));
      GANTRY_ASSIGN(
          impl->buffers,  // proves the plan
          PlanBuffers::make(plan, ranks.rank(), memory_of(plan, call)).map_error(of_program));
      GANTRY_ASSIGN(impl->executor,
                    PlanExecutor::prepare(group, plan, impl->buffers.tensors, {}, deadline));
      return Collective(std::move(impl));
    };
    auto made = make();
    if (made || ranks.failure()) return made;
    Error error = std::move(made).error();
    error.message =
        fmt::format("rank {}, {}: {}", ranks.rank(), to_string(call.kind), error.message);
    return tl::unexpected(ranks.break_with(error));
  });
}

Result<PlanRun> Collective::run(Deadline deadline) {
  return impl_->executor->run(deadline);
}

const CollectiveChoice& Collective::choice() const noexcept {
  return impl_->choice;
}

const PlanFacts& Collective::facts() const noexcept {
  return impl_->executor->facts();
}

// ---- once ------------------------------------------------------------------------------------

Result<PlanRun> all_gather(Group& group, const CollectiveTensor& tensor,
                           const CollectiveOptions& options, Deadline deadline) {
  return run_once(group, {CollectiveKind::all_gather, tensor}, options, deadline);
}

Result<PlanRun> reduce_scatter(Group& group, const CollectiveTensor& tensor,
                               const CollectiveOptions& options, Deadline deadline) {
  return run_once(group, {CollectiveKind::reduce_scatter, tensor}, options, deadline);
}

Result<PlanRun> all_reduce(Group& group, const CollectiveTensor& tensor,
                           const CollectiveOptions& options, Deadline deadline) {
  return run_once(group, {CollectiveKind::all_reduce, tensor}, options, deadline);
}

Result<PlanRun> broadcast(Group& group, const CollectiveTensor& tensor, unsigned root,
                          const CollectiveOptions& options, Deadline deadline) {
  return run_once(group, {CollectiveKind::broadcast, tensor, {}, root}, options, deadline);
}

Result<PlanRun> all_to_all(Group& group, const CollectiveTensor& tensor,
                           const CollectiveTensor& result, std::vector<std::int64_t> counts,
                           const CollectiveOptions& options, Deadline deadline) {
  return run_once(group, {CollectiveKind::all_to_all, tensor, result, 0, std::move(counts)},
                  options, deadline);
}

}  // namespace gantry
