#include "ranks/schedule/collectives/meaning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "ranks/group/group.hpp"
#include "ranks/schedule/plan.hpp"

namespace gantry {
namespace {

// ---- what is meant ---------------------------------------------------------------------------

/// Of one collective and shape.
class Meant {
 public:
  explicit Meant(const CollectiveShape& shape) : shape_(shape) {
    made_.given_size = made_.wanted_size = shape.size;
  }

  CollectiveMeaning take() {
    const auto is_empty = [](const MeantSpan& span) { return span.first == span.last; };
    std::erase_if(made_.given, is_empty);
    std::erase_if(made_.wanted, is_empty);
    return std::move(made_);
  }
  void gather() {
    for (unsigned i = 0; i < shape_.ranks; ++i) {
      made_.given.push_back({i, border(i), border(i + 1)});
      for (unsigned r = 0; r < shape_.ranks; ++r)
        made_.wanted.push_back({r, border(i), border(i + 1), {{i, border(i)}}});
    }
  }
  void reduce(bool is_for_all) {
    give_all();
    for (unsigned r = 0; r < shape_.ranks; ++r) {
      const std::int64_t first = is_for_all ? 0 : border(r);
      MeantSpan sum{r, first, is_for_all ? shape_.size : border(r + 1)};
      for (unsigned q = 0; q < shape_.ranks; ++q) sum.sources.push_back({q, first});
      made_.wanted.push_back(std::move(sum));
    }
  }
  void broadcast() {
    made_.given.push_back({shape_.root, 0, shape_.size});
    for (unsigned r = 0; r < shape_.ranks; ++r)
      made_.wanted.push_back({r, 0, shape_.size, {{shape_.root, 0}}});
  }
  void exchange() {
    made_.wanted_in = kCollectiveResult;
    give_all();
    std::int64_t most = 0;
    for (unsigned q = 0; q < shape_.ranks; ++q) {
      const std::int64_t length = border(q + 1) - border(q);
      most = std::max(most, length);
      for (unsigned r = 0; r < shape_.ranks; ++r)
        made_.wanted.push_back({q, r * length, (r + 1) * length, {{r, border(q)}}});
    }
    made_.wanted_size = most * shape_.ranks;
  }
  void exchange_counts() {
    made_.wanted_in = kCollectiveResult;
    std::vector<std::int64_t> arrived(shape_.ranks);
    for (unsigned r = 0; r < shape_.ranks; ++r) {
      std::int64_t left = 0;
      for (unsigned q = 0; q < shape_.ranks; ++q) {
        const std::int64_t count = shape_.counts[std::size_t{r} * shape_.ranks + q];
        made_.wanted.push_back({q, arrived[q], arrived[q] + count, {{r, left}}});
        arrived[q] += count;
        left += count;
      }
      made_.given.push_back({r, 0, left});
    }
  }

 private:
  [[nodiscard]] std::int64_t border(unsigned piece) const noexcept {
    return shape_.size * piece / shape_.ranks;
  }
  void give_all() {
    for (unsigned r = 0; r < shape_.ranks; ++r) made_.given.push_back({r, 0, shape_.size});
  }

  const CollectiveShape& shape_;
  CollectiveMeaning made_;
};

// ---- what a plan says ------------------------------------------------------------------------

/// A plan's matrices by where their elements were given, and its wanted elements.
class Said {
 public:
  explicit Said(const Plan& plan) : plan_(plan) {}

  Result<void> read(const CollectiveMeaning& meaning) {
    for (const PlanValue& value : plan_.given) GANTRY_TRY(take_given(value, meaning));
    for (auto& [name, spans] : given_) {
      std::ranges::sort(spans, {}, &Span::first);
      for (std::size_t i = 1; i < spans.size(); ++i)
        if (spans[i].first < spans[i - 1].last)
          return wrong(fmt::format("{}: given at rank {} and at rank {}", name.first,
                                   spans[i - 1].source.rank, spans[i].source.rank));
    }
    return read_wanted(meaning);
  }

  Result<void> compare(const MeantSpan& meant) const {
    std::vector<MeantSpan::Source> sources;
    for (std::int64_t at = meant.first; at < meant.last;) {
      sources.clear();
      std::int64_t end = meant.last;
      if (!resolve(meant.rank, at, sources, end))
        return wrong(fmt::format("rank {}: nothing known is wanted at element {}", meant.rank, at));
      std::ranges::sort(sources);
      const std::int64_t ahead = at - meant.first;
      const auto is_meant = [ahead](const MeantSpan::Source& one, const MeantSpan::Source& other) {
        return one.rank == other.rank && one.first == other.first + ahead;
      };
      if (!std::ranges::equal(sources, meant.sources, is_meant))
        return wrong(fmt::format("rank {}: element {} is {} and should be {}", meant.rank, at,
                                 text_of(sources, 0), text_of(meant.sources, ahead)));
      at = end;
    }
    return {};
  }

  [[nodiscard]] static tl::unexpected<Error> wrong(std::string what) {
    return fail(Code::invalid_argument, std::move(what), "take a program of that collective");
  }

 private:
  /// "x@0[5] + x@1[5]": the element that is so many behind the first ones.
  [[nodiscard]] static std::string text_of(const std::vector<MeantSpan::Source>& sources,
                                           std::int64_t behind) {
    constexpr std::size_t kMost = 8;
    std::string text = sources.empty() ? "0" : "";
    for (std::size_t i = 0; i < std::min(sources.size(), kMost); ++i)
      text += fmt::format("{}{}@{}[{}]", i == 0 ? "" : " + ", kCollectiveTensor, sources[i].rank,
                          sources[i].first + behind);
    if (sources.size() > kMost) text += fmt::format(" + {} more", sources.size() - kMost);
    return text;
  }

  /// Columns of a row of a matrix, and where the first one was given.
  struct Span {
    std::int64_t first = 0;
    std::int64_t last = 0;
    MeantSpan::Source source;
  };
  using Row = std::pair<std::string_view, std::int64_t>;

  // What is wanted beyond what is meant would change what the caller keeps.
  Result<void> read_wanted(const CollectiveMeaning& meaning) {
    std::map<unsigned, std::int64_t> left;
    for (const MeantSpan& span : meaning.wanted) left[span.rank] += span.last - span.first;
    for (const PlanValue& value : plan_.wanted) {
      const PlanPlace& place = value.place;
      if (place.rect.rows == 0 || place.rect.cols == 0) continue;
      const std::string& name = plan_.tensors[place.tensor].name;
      left[place.rank] -= place.rect.cols;
      if (name != meaning.wanted_in || left[place.rank] < 0)
        return wrong(fmt::format("rank {}: it wants more: {} {}:{}", place.rank, name,
                                 place.rect.col, place.rect.col + place.rect.cols));
      wanted_[place.rank].push_back(&value);
    }
    for (auto& [rank, values] : wanted_)
      std::ranges::sort(values, {}, [](const PlanValue* value) { return value->place.rect.col; });
    return {};
  }

  Result<void> take_given(const PlanValue& value, const CollectiveMeaning& meaning) {
    const PlanPlace& place = value.place;
    const std::int64_t first = place.rect.col;
    const std::int64_t last = first + place.rect.cols;
    if (place.rect.rows == 0 || first == last) return {};
    const std::string& name = plan_.tensors[place.tensor].name;
    const bool is_given = std::ranges::any_of(meaning.given, [&](const MeantSpan& span) {
      return span.rank == place.rank && span.first <= first && last <= span.last;
    });
    if (name != kCollectiveTensor || !is_given)
      return wrong(
          fmt::format("rank {}: it takes {} {}:{} for given", place.rank, name, first, last));
    if (value.sum.size() != 1 || !value.sum.front().right.empty())
      return wrong(fmt::format("rank {}: what is given is one matrix", place.rank));
    const PlanTerm& term = value.sum.front();
    given_[{term.left, place.rect.row + term.row}].push_back(
        {first + term.col, last + term.col, {place.rank, first}});
    return {};
  }

  /// Where the element at `at` comes from; the same goes for those up to `end`, which shrinks.
  bool resolve(unsigned rank, std::int64_t at, std::vector<MeantSpan::Source>& sources,
               std::int64_t& end) const {
    const auto values = wanted_.find(rank);
    if (values == wanted_.end()) return false;
    const auto column = [](const PlanValue* value) { return value->place.rect.col; };
    auto behind = std::ranges::upper_bound(values->second, at, {}, column);
    if (behind == values->second.begin()) return false;
    const PlanValue& value = **(behind - 1);
    const PlanRect& rect = value.place.rect;
    if (at >= rect.col + rect.cols || rect.rows == 0) return false;
    end = std::min(end, rect.col + rect.cols);
    if (behind != values->second.end()) end = std::min(end, column(*behind));
    for (const PlanTerm& term : value.sum) {
      const auto row = given_.find({term.left, rect.row + term.row});
      if (row == given_.end() || !term.right.empty()) return false;
      const std::int64_t of_matrix = at + term.col;
      const auto next = std::ranges::upper_bound(row->second, of_matrix, {}, &Span::first);
      if (next == row->second.begin()) return false;
      const Span& span = *(next - 1);
      if (of_matrix >= span.last) return false;
      sources.push_back({span.source.rank, span.source.first + (of_matrix - span.first)});
      end = std::min(end, at + (span.last - of_matrix));
    }
    return true;
  }

  const Plan& plan_;
  std::map<Row, std::vector<Span>> given_;
  std::map<unsigned, std::vector<const PlanValue*>> wanted_;
};

Result<void> check_tensor(const Plan& plan, std::string_view name, std::int64_t least,
                          std::int64_t most) {
  const auto found = std::ranges::find(plan.tensors, name, &PlanTensor::name);
  if (found == plan.tensors.end()) return Said::wrong(fmt::format("it has no tensor {}", name));
  if (found->rows == 1 && found->cols >= least && found->cols <= most) return {};
  return Said::wrong(fmt::format("its tensor {} is {} x {}, and not 1 x {}", name, found->rows,
                                 found->cols, least));
}

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

CollectiveMeaning meaning_of(CollectiveKind kind, const CollectiveShape& shape) {
  Meant meant(shape);
  switch (kind) {
    case CollectiveKind::all_gather:
      meant.gather();
      break;
    case CollectiveKind::reduce_scatter:
      meant.reduce(false);
      break;
    case CollectiveKind::all_reduce:
      meant.reduce(true);
      break;
    case CollectiveKind::all_to_all:
      shape.counts.empty() ? meant.exchange() : meant.exchange_counts();
      break;
    case CollectiveKind::broadcast:
      meant.broadcast();
  }
  return meant.take();
}

Result<void> check_meaning(const Plan& plan, const CollectiveMeaning& meaning) {
  return guarded([&]() -> Result<void> {
    GANTRY_TRY(check_tensor(plan, kCollectiveTensor, meaning.given_size, meaning.given_size));
    if (meaning.wanted_in != kCollectiveTensor)
      GANTRY_TRY(check_tensor(plan, meaning.wanted_in, meaning.wanted_size, meaning.wanted_size));
    Said said(plan);
    GANTRY_TRY(said.read(meaning));
    for (const MeantSpan& span : meaning.wanted) GANTRY_TRY(said.compare(span));
    return {};
  });
}

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
    return tl::unexpected(ranks.break_with(
        prefixed(std::move(made).error(), "rank {}, {}", ranks.rank(), to_string(call.kind))
            .value()));
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
