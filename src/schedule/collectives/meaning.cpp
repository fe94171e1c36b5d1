#include "schedule/collectives/meaning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/result.hpp"

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

}  // namespace gantry
