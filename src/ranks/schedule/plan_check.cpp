#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <ranges>
#include <set>

#include "core/base/text_lines.hpp"
#include "ranks/schedule/tiles.hpp"

namespace gantry {
namespace {

bool is_name(std::string_view text) noexcept {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && text.size() <= kLongestName && is_letter(text.front()) &&
         std::ranges::all_of(
             text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

tl::unexpected<Error> wrong(std::string what) {
  return fail(Code::invalid_argument, std::move(what));
}

Result<void> check_tensors(const Plan& plan) {
  std::set<std::string_view> names;
  if (plan.tensors.size() > kMostTensors)
    return fail(Code::too_large,
                fmt::format("{} tensors, beyond {}", plan.tensors.size(), kMostTensors));
  for (const PlanTensor& tensor : plan.tensors) {
    if (!is_name(tensor.name)) return wrong(quote(tensor.name) + " is no name");
    if (!names.insert(tensor.name).second)
      return wrong(fmt::format("there are two tensors {}", tensor.name));
    if (tensor.rows < 0 || tensor.cols < 0 || tensor.rows > kMostRows || tensor.cols > kMostRows)
      return wrong(fmt::format("tensor {} of {} x {}", tensor.name, tensor.rows, tensor.cols));
    if (name_of(tensor.type).empty())
      return wrong(fmt::format("tensor {} has a type that no plan may have", tensor.name));
  }
  return {};
}

Result<void> check_place(const Plan& plan, const PlanPlace& place) {
  if (place.rank >= plan.ranks)
    return wrong(fmt::format("rank {} of a group of {}", place.rank, plan.ranks));
  if (place.tensor >= plan.tensors.size())
    return wrong(fmt::format("tensor {}, which there is not", place.tensor));
  const PlanTensor& tensor = plan.tensors[place.tensor];
  const PlanRect& rect = place.rect;
  if (rect.row >= 0 && rect.col >= 0 && rect.rows >= 0 && rect.cols >= 0 &&
      rect.row <= tensor.rows && rect.col <= tensor.cols && rect.rows <= tensor.rows - rect.row &&
      rect.cols <= tensor.cols - rect.col)
    return {};
  if (std::ranges::any_of(std::array{rect.row, rect.col, rect.rows, rect.cols},
                          [](auto one) { return one < 0 || one > kMostRows; }))
    return wrong(fmt::format("a place in {}@{} that nothing has", tensor.name, place.rank));
  return wrong(fmt::format("{} is beyond {} x {}", text_of(plan, place), tensor.rows, tensor.cols));
}

Result<void> check_value(const Plan& plan, const PlanValue& value) {
  GANTRY_TRY(check_place(plan, value.place));
  for (const PlanTerm& term : value.sum) {
    const bool has_names = is_name(term.left) && (term.right.empty() || is_name(term.right));
    const auto is_far = [](std::int64_t at) { return at < -kMostRows || at > kMostRows; };
    if (!has_names || is_far(term.row) || is_far(term.col) || is_far(term.first) ||
        is_far(term.last) || (!term.right.empty() && term.first >= term.last))
      return wrong(fmt::format("{}: a term that is none: {}", text_of(plan, value.place),
                               quote(text_of(term))));
  }
  return {};
}

bool overlap(const PlanPlace& one, const PlanPlace& other) noexcept {
  return one.rank == other.rank && one.tensor == other.tensor && overlap(one.rect, other.rect);
}

/// One that reads `from` (and `other`) and writes `to`.
Result<void> check_operands(const Plan& plan, const PlanStep& step) {
  const bool is_gemm = step.verb == PlanVerb::gemm;
  for (const PlanPlace* const place : {&step.to, &step.from, is_gemm ? &step.other : &step.to})
    GANTRY_TRY(check_place(plan, *place));
  const PlanRect& to = step.to.rect;
  const PlanRect& from = step.from.rect;
  const PlanRect& other = step.other.rect;
  const bool fits = is_gemm
                        ? from.rows == to.rows && from.cols == other.rows && other.cols == to.cols
                        : from.rows == to.rows && from.cols == to.cols;
  if (!fits)
    return wrong(is_gemm
                     ? fmt::format("{} x {} times {} x {} is not {} x {}", from.rows, from.cols,
                                   other.rows, other.cols, to.rows, to.cols)
                     : fmt::format("{} x {} into {} x {}", from.rows, from.cols, to.rows, to.cols));
  if (overlap(step.from, step.to) || (is_gemm && overlap(step.other, step.to)))
    return wrong(fmt::format("it reads what it writes: {}", text_of(plan, step.to)));
  const DataType type = plan.tensors[step.to.tensor].type;
  if (plan.tensors[step.from.tensor].type != type ||
      (is_gemm && plan.tensors[step.other.tensor].type != type))
    return wrong("its tensors have different types");
  return {};
}

// Whose memory a verb may touch.
Result<void> check_owners(const PlanStep& step) {
  const bool is_to_own = step.to.rank == step.rank;
  const bool is_from_own = step.from.rank == step.rank;
  switch (step.verb) {
    case PlanVerb::put:
      if (!is_from_own || is_to_own) return wrong("a put goes from its own rank to another one");
      return {};
    case PlanVerb::get:
      if (!is_to_own || is_from_own) return wrong("a get comes from another rank to its own");
      return {};
    case PlanVerb::gemm:
      if (step.other.rank != step.rank) return wrong("it works on another rank's memory");
      [[fallthrough]];
    default:
      if (!is_to_own || !is_from_own) return wrong("it works on another rank's memory");
      return {};
  }
}

Result<void> check_step(const Plan& plan, const PlanStep& step) {
  if (step.rank >= plan.ranks)
    return wrong(fmt::format("rank {} of a group of {}", step.rank, plan.ranks));
  if (step.lane >= plan.lanes) return wrong(fmt::format("lane {} of {}", step.lane, plan.lanes));
  switch (step.verb) {
    case PlanVerb::barrier:
      return {};
    case PlanVerb::signal:
      if (step.to.rank >= plan.ranks || step.to.rank == step.rank)
        return wrong(fmt::format("it signals rank {}", step.to.rank));
      return {};
    case PlanVerb::fill:
      GANTRY_TRY(check_place(plan, step.to));
      if (step.to.rank != step.rank) return wrong("it works on another rank's memory");
      return {};
    default:
      GANTRY_TRY(check_operands(plan, step));
      return check_owners(step);
  }
}

// ---- what it costs ---------------------------------------------------------------------------

/// Needs check_shape(). Errors: `too_large`.
Result<PlanFacts> facts_of(const Plan& plan) {
  for (const PlanTensor& tensor : plan.tensors)
    if (tensor.rows > 0 && tensor.cols > kMostRows / tensor.rows)
      return fail(Code::too_large,
                  fmt::format("tensor {} of {} x {}", tensor.name, tensor.rows, tensor.cols));
  PlanFacts facts;
  facts.memory.resize(plan.ranks);
  facts.sent.resize(plan.ranks);
  facts.received.resize(plan.ranks);
  facts.flops.resize(plan.ranks);
  std::set<std::pair<unsigned, unsigned>> touched;
  const auto touch = [&](const PlanPlace& place) {
    if (touched.emplace(place.rank, place.tensor).second)
      facts.memory[place.rank] += bytes_of(plan.tensors[place.tensor]);
  };
  for (const auto* const values : {&plan.given, &plan.wanted})
    for (const PlanValue& value : *values) touch(value.place);
  for (const PlanStep& step : plan.steps) {
    visit_places(step, touch);
    if (step.verb == PlanVerb::gemm)
      facts.flops[step.rank] += 2.0 * static_cast<double>(step.to.rect.rows) *
                                static_cast<double>(step.to.rect.cols) *
                                static_cast<double>(step.from.rect.cols);
    if (step.verb != PlanVerb::put && step.verb != PlanVerb::get) continue;
    const Bytes bytes = bytes_of(plan, step.to);
    facts.sent[step.from.rank] += bytes;
    facts.received[step.to.rank] += bytes;
  }
  return facts;
}

// ---- what happens before what ----------------------------------------------------------------

constexpr std::size_t kMostComparisons = std::size_t{1} << 30;  // of words of seen_

// Whether a rank learns that a step of another one has ended.
bool is_heard_by(const PlanStep& step, unsigned rank) noexcept {
  switch (step.verb) {
    case PlanVerb::put:
    case PlanVerb::signal:
      return step.rank == rank || step.to.rank == rank;
    case PlanVerb::get:
      return step.rank == rank || step.from.rank == rank;
    case PlanVerb::barrier:
      return true;
    default:
      return step.rank == rank;
  }
}

/// The order of a plan's steps: of its lanes, of what they wait for, of barriers. The n-th barriers
/// of all ranks are one event.
class StepOrder {
 public:
  /// Errors: `invalid_argument` when a step waits for what its rank does not hear of, when ranks
  /// have different numbers of barriers, when steps wait for each other; `too_large`.
  [[nodiscard]] static Result<StepOrder> of(const Plan& plan) {
    StepOrder order;
    order.chains_ = std::size_t{plan.ranks} * plan.lanes;
    if (plan.steps.size() * order.chains_ > kMostStepsInLanes)  // words of seen_
      return fail(Code::too_large,
                  fmt::format("a plan of {} steps in {} lanes", plan.steps.size(), order.chains_),
                  fmt::format("steps times lanes may be {}", kMostStepsInLanes));
    GANTRY_TRY(order.join_barriers(plan));
    GANTRY_TRY(order.make_edges(plan));
    GANTRY_TRY(order.sort(plan));
    std::size_t edges = 0;
    for (const auto& before : order.before_) edges += before.size();
    if (edges > kMostComparisons / order.chains_)
      return fail(
          Code::too_large,
          fmt::format("steps that wait for {} others in all, in {} lanes", edges, order.chains_),
          fmt::format("waits times lanes may be {}", kMostComparisons));
    order.look_back();
    return order;
  }

  /// All steps, each behind those that happen before it.
  [[nodiscard]] const std::vector<std::uint32_t>& in_turn() const noexcept { return in_turn_; }
  [[nodiscard]] bool is_before(std::uint32_t one, std::uint32_t other) const noexcept {
    return one == other || seen_[other * chains_ + chain_[one]] > place_[one];
  }

 private:
  [[nodiscard]] Result<void> make_edges(const Plan& plan) {
    std::vector<std::uint32_t> last(chains_, ~std::uint32_t{0});
    std::vector<std::uint32_t> count(chains_);
    before_.resize(plan.steps.size());
    for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
      const PlanStep& step = plan.steps[i];
      const auto chain =
          static_cast<std::uint32_t>(std::size_t{step.rank} * plan.lanes + step.lane);
      chain_.push_back(chain);
      place_.push_back(count[chain]++);
      auto& before = before_[event_[i]];
      if (last[chain] != ~std::uint32_t{0}) before.push_back(event_[last[chain]]);
      last[chain] = i;
      for (const unsigned awaited : step.after) {
        if (awaited >= plan.steps.size() || awaited == i)
          return fail(Code::invalid_argument,
                      fmt::format("{} is after step {}, {}", name_of_step(plan, i), awaited,
                                  awaited == i ? "itself" : "which there is not"));
        if (!is_heard_by(plan.steps[awaited], step.rank))
          return fail(Code::invalid_argument,
                      fmt::format("{} is after {}, of which rank {} does not hear",
                                  name_of_step(plan, i), name_of_step(plan, awaited), step.rank),
                      "let that rank put to it, or signal it behind that step");
        before.push_back(event_[awaited]);
      }
    }
    return {};
  }

  [[nodiscard]] Result<void> join_barriers(const Plan& plan) {
    event_.resize(plan.steps.size());
    std::iota(event_.begin(), event_.end(), 0u);
    std::vector<std::vector<std::uint32_t>> barriers(plan.ranks);
    for (std::uint32_t i = 0; i < plan.steps.size(); ++i)
      if (plan.steps[i].verb == PlanVerb::barrier) barriers[plan.steps[i].rank].push_back(i);
    for (unsigned rank = 0; rank < plan.ranks; ++rank) {
      if (barriers[rank].size() != barriers[0].size())
        return fail(Code::invalid_argument,
                    fmt::format("rank {} has {} barriers, rank 0 has {}", rank,
                                barriers[rank].size(), barriers[0].size()));
      for (std::size_t turn = 0; turn < barriers[rank].size(); ++turn)
        event_[barriers[rank][turn]] = barriers[0][turn];
    }
    return {};
  }

  [[nodiscard]] Result<void> sort(const Plan& plan) {
    const std::size_t steps = plan.steps.size();
    std::vector<std::vector<std::uint32_t>> behind(steps);
    std::vector<std::size_t> missing(steps);
    std::vector<std::vector<std::uint32_t>> steps_of(steps);
    for (std::uint32_t i = 0; i < steps; ++i) {
      steps_of[event_[i]].push_back(i);
      for (const std::uint32_t one : before_[i]) behind[one].push_back(i);
      missing[i] = before_[i].size();
    }
    for (std::uint32_t i = 0; i < steps; ++i)
      if (event_[i] == i && missing[i] == 0) events_in_turn_.push_back(i);
    for (std::size_t next = 0; next < events_in_turn_.size(); ++next) {
      const std::uint32_t event = events_in_turn_[next];
      in_turn_.insert(in_turn_.end(), steps_of[event].begin(), steps_of[event].end());
      for (const std::uint32_t one : behind[event])
        if (--missing[one] == 0) events_in_turn_.push_back(one);
    }
    if (in_turn_.size() == steps) return {};
    const auto stuck = std::ranges::find_if(missing, [](std::size_t count) { return count != 0; });
    const auto step = static_cast<unsigned>(stuck - missing.begin());
    return fail(Code::invalid_argument,
                fmt::format("{} waits for itself, by way of others", name_of_step(plan, step)),
                "a lane's steps take place in the order in which they stand in the plan");
  }

  // Of each step what it has seen of every chain. Steps of an event have seen the same.
  void look_back() {
    seen_.assign(event_.size() * chains_, 0);
    std::vector<std::vector<std::uint32_t>> steps_of(event_.size());
    for (std::uint32_t i = 0; i < event_.size(); ++i) steps_of[event_[i]].push_back(i);
    for (const std::uint32_t event : events_in_turn_) {
      const auto own = std::span(seen_).subspan(event * chains_, chains_);
      for (const std::uint32_t one : before_[event]) {
        const auto theirs = std::span(seen_).subspan(one * chains_, chains_);
        std::ranges::transform(own, theirs, own.begin(),
                               [](auto a, auto b) { return std::max(a, b); });
      }
      for (const std::uint32_t step : steps_of[event])
        own[chain_[step]] = std::max(own[chain_[step]], place_[step] + 1);
      for (const std::uint32_t step : steps_of[event])
        if (step != event)
          std::ranges::copy(own, seen_.begin() + static_cast<std::ptrdiff_t>(step * chains_));
    }
  }

  std::size_t chains_ = 0;            // lanes of all ranks
  std::vector<std::uint32_t> chain_;  // of each step
  std::vector<std::uint32_t> place_;  // of each step in its chain, from 0
  std::vector<std::uint32_t> event_;  // of each step: itself, or the first barrier of its turn
  std::vector<std::vector<std::uint32_t>> before_;  // of each event: events
  std::vector<std::uint32_t> in_turn_;
  std::vector<std::uint32_t> events_in_turn_;
  std::vector<std::uint32_t> seen_;  // of each step and chain: how many of it happened before
};

// ---- what the elements are -------------------------------------------------------------------

// So many cost as much as a tile.
constexpr std::size_t kReadersALook = 8;
constexpr std::size_t kTermsALook = 16;

constexpr std::ptrdiff_t kTermsSaid = 8;  // of a sum, in an error

/// A rectangle of what a step reads, and what it is.
struct Piece {
  PlanRect rect;
  SharedTerms terms;
};

/// Takes the steps' parts in their order, on what is known of the elements.
///   I1  What a step writes is what any run of the plan would have there: whoever else touches it
///       comes before that step or behind it, or the plan is refused.
class Follower {
 public:
  Follower(const Plan& plan, StepOrder order, const CheckBudget& budget)
      : plan_(plan), order_(std::move(order)), budget_(budget) {}

  [[nodiscard]] Result<void> run() {
    for (const PlanValue& value : plan_.given) GANTRY_TRY(give(value));
    for (const std::uint32_t step : order_.in_turn()) {
      step_ = step;
      auto done = follow(plan_.steps[step]);
      if (!done) return prefixed(std::move(done).error(), "{}", name_of_step(plan_, step));
    }
    for (const PlanValue& value : plan_.wanted) GANTRY_TRY(compare(value));
    return {};
  }

 private:
  Tiles& tiles_of(const PlanPlace& place) {
    const PlanTensor& tensor = plan_.tensors[place.tensor];
    return tiles_.try_emplace({place.rank, place.tensor}, tensor.rows, tensor.cols).first->second;
  }
  std::uint32_t number_of(const std::string& matrix) {
    const auto [at, is_new] =
        matrices_.try_emplace(matrix, static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(matrix);
    return at->second;
  }
  [[nodiscard]] Result<SharedTerms> share(Terms terms) {
    GANTRY_TRY(budget_.take_terms(terms.size()));
    return std::make_shared<const Terms>(std::move(terms));
  }
  [[nodiscard]] Result<SharedTerms> terms_of(const PlanValue& value) {
    const auto wrong = [&](Error error) {
      return prefixed(std::move(error), "{}", text_of(plan_, value.place));
    };
    if (auto taken = budget_.take_terms(value.sum.size()); !taken)
      return wrong(std::move(taken).error());
    Terms terms;
    for (const PlanTerm& one : value.sum)
      terms.push_back({number_of(one.left), one.right.empty() ? Term::kNone : number_of(one.right),
                       one.row, one.col, one.first, one.last});
    auto sum = joined(std::move(terms));
    if (sum) return std::make_shared<const Terms>(*std::move(sum));
    return wrong({Code::invalid_argument, text_of_term(sum.error()) + " counts twice", {}});
  }
  [[nodiscard]] std::string text_of_term(const Term& term) const {
    return text_of(PlanTerm{names_[term.left], term.is_product() ? names_[term.right] : "",
                            term.row, term.col, term.first, term.last});
  }
  [[nodiscard]] std::string text_of_part(const PlanPlace& place, const PlanRect& rect) const {
    return text_of(plan_, {place.rank, place.tensor, rect});
  }

  [[nodiscard]] Result<void> give(const PlanValue& value) {
    GANTRY_ASSIGN(const SharedTerms terms, terms_of(value));
    return tiles_of(value.place).each(value.place.rect, budget_, [&](Tile& tile) -> Result<void> {
      if (tile.value)
        return fail(Code::invalid_argument,
                    fmt::format("{} is given twice", text_of_part(value.place, tile.rect)));
      tile.value = terms;
      return {};
    });
  }

  // ---- who touches what --------------------------------------------------------------------

  [[nodiscard]] tl::unexpected<Error> race(const PlanPlace& place, const Tile& tile,
                                           std::uint32_t other, std::string_view what) const {
    return fail(Code::invalid_argument,
                fmt::format("{} may {} {} before, while or after it does this",
                            name_of_step(plan_, other), what, text_of_part(place, tile.rect)),
                fmt::format("let one of them be after the other"));
  }
  [[nodiscard]] Result<void> note_read(const PlanPlace& place, Tile& tile) {
    if (tile.writer != Tile::kNobody && !order_.is_before(tile.writer, step_))
      return race(place, tile, tile.writer, "write");
    if (!tile.value)
      return fail(Code::invalid_argument,
                  fmt::format("nothing has been written to {}", text_of_part(place, tile.rect)));
    GANTRY_TRY(budget_.take_looks(tile.readers.size() / kReadersALook));
    std::erase_if(tile.readers,
                  [&](std::uint32_t earlier) { return order_.is_before(earlier, step_); });
    tile.readers.push_back(step_);
    return {};
  }
  [[nodiscard]] Result<void> note_write(const PlanPlace& place, Tile& tile) {
    if (tile.writer != Tile::kNobody && !order_.is_before(tile.writer, step_))
      return race(place, tile, tile.writer, "write");
    GANTRY_TRY(budget_.take_looks(tile.readers.size() / kReadersALook));
    for (const std::uint32_t reader : tile.readers)
      if (!order_.is_before(reader, step_)) return race(place, tile, reader, "read");
    tile.writer = step_;
    tile.readers.clear();
    return {};
  }

  // ---- what becomes of it ------------------------------------------------------------------

  [[nodiscard]] Result<std::vector<Piece>> read(const PlanPlace& place) {
    std::vector<Piece> pieces;
    auto done = tiles_of(place).each(place.rect, budget_, [&](Tile& tile) -> Result<void> {
      GANTRY_TRY(note_read(place, tile));
      pieces.push_back({tile.rect, tile.value});
      return {};
    });
    if (!done) return tl::unexpected(std::move(done).error());
    return pieces;
  }
  [[nodiscard]] Result<void> write(const PlanPlace& place, const PlanRect& rect,
                                   const SharedTerms& terms) {
    return tiles_of(place).each(rect, budget_, [&](Tile& tile) -> Result<void> {
      GANTRY_TRY(note_write(place, tile));
      tile.value = terms;
      return {};
    });
  }
  [[nodiscard]] Result<void> add(const PlanPlace& place, const PlanRect& rect, const Terms& more) {
    return tiles_of(place).each(rect, budget_, [&](Tile& tile) -> Result<void> {
      GANTRY_TRY(note_read(place, tile));
      GANTRY_TRY(note_write(place, tile));
      Terms both;
      both.reserve(tile.value->size() + more.size());
      std::ranges::merge(*tile.value, more, std::back_inserter(both));
      if (auto sum = joined(std::move(both))) {
        GANTRY_ASSIGN(tile.value, share(*std::move(sum)));
        return {};
      }
      return fail(Code::invalid_argument,
                  fmt::format("some of what is added to {} is there already",
                              text_of_part(place, tile.rect)));
    });
  }

  [[nodiscard]] Result<void> follow(const PlanStep& step) {
    switch (step.verb) {
      case PlanVerb::put:
      case PlanVerb::get:
      case PlanVerb::copy:
      case PlanVerb::reduce:
        return move(step);
      case PlanVerb::gemm:
        return multiply(step);
      case PlanVerb::fill:
        return write(step.to, step.to.rect, zero_);
      case PlanVerb::signal:
      case PlanVerb::barrier:
        break;
    }
    return {};
  }

  [[nodiscard]] Result<void> move(const PlanStep& step) {
    GANTRY_ASSIGN(const auto pieces, read(step.from));
    const std::int64_t down = step.to.rect.row - step.from.rect.row;
    const std::int64_t across = step.to.rect.col - step.from.rect.col;
    for (const Piece& piece : pieces) {
      const PlanRect rect{piece.rect.row + down, piece.rect.col + across, piece.rect.rows,
                          piece.rect.cols};
      SharedTerms terms = piece.terms;
      if (down != 0 || across != 0) {
        GANTRY_ASSIGN(terms, share(shifted(*piece.terms, -down, -across)));
      }
      GANTRY_TRY(step.verb == PlanVerb::reduce ? add(step.to, rect, *terms)
                                               : write(step.to, rect, terms));
    }
    return {};
  }

  [[nodiscard]] Result<void> multiply(const PlanStep& step) {
    GANTRY_ASSIGN(const auto lefts, read(step.from));
    GANTRY_ASSIGN(const auto rights, read(step.other));
    if (!step.adds) GANTRY_TRY(write(step.to, step.to.rect, zero_));
    for (const Piece& left : lefts)
      for (const Piece& right : rights) {
        GANTRY_TRY(budget_.take_looks(1));
        GANTRY_TRY(multiply(step, left, right));
      }
    return {};
  }
  [[nodiscard]] Result<void> multiply(const PlanStep& step, const Piece& left, const Piece& right) {
    // Counted from where both factors begin.
    const std::int64_t first =
        std::max(left.rect.col - step.from.rect.col, right.rect.row - step.other.rect.row);
    const std::int64_t last = std::min(left.rect.col + left.rect.cols - step.from.rect.col,
                                       right.rect.row + right.rect.rows - step.other.rect.row);
    if (first >= last || left.terms->empty() || right.terms->empty()) return {};
    for (const Piece* const factor : {&left, &right})
      if (factor->terms->size() != 1 || factor->terms->front().is_product())
        return fail(Code::unsupported, "a factor is itself a product or a sum",
                    "end the plan in front of it; what it wants is given to the next one");
    const Term& a = left.terms->front();
    const Term& b = right.terms->front();
    const std::int64_t k = step.from.rect.col + first + a.col;
    if (const std::int64_t other = step.other.rect.row + first + b.row; k != other)
      return fail(Code::invalid_argument, fmt::format("column {} of {} meets row {} of {}", k,
                                                      names_[a.left], other, names_[b.left]));
    const Term product{a.left,
                       b.left,
                       a.row + step.from.rect.row - step.to.rect.row,
                       b.col + step.other.rect.col - step.to.rect.col,
                       k,
                       k + last - first};
    const PlanRect rect{step.to.rect.row + left.rect.row - step.from.rect.row,
                        step.to.rect.col + right.rect.col - step.other.rect.col, left.rect.rows,
                        right.rect.cols};
    return add(step.to, rect, {product});
  }

  [[nodiscard]] Result<void> compare(const PlanValue& value) {
    GANTRY_ASSIGN(const SharedTerms wanted, terms_of(value));
    return tiles_of(value.place)
        .each(value.place.rect, budget_, [&](const Tile& tile) -> Result<void> {
          GANTRY_TRY(budget_.take_looks(wanted->size() / kTermsALook));
          if (tile.value && *tile.value == *wanted) return {};
          const std::string where = text_of_part(value.place, tile.rect);
          if (!tile.value)
            return fail(Code::invalid_argument, fmt::format("nothing is written to {}", where));
          for (const Term& term : *wanted)
            if (!std::ranges::binary_search(*tile.value, term))
              return fail(Code::invalid_argument,
                          fmt::format("{} is wanted to have {}; it has {}", where,
                                      text_of_term(term), text_of_sum(*tile.value)));
          return fail(Code::invalid_argument, fmt::format("{} has more than is wanted: {}", where,
                                                          text_of_sum(*tile.value)));
        });
  }
  [[nodiscard]] std::string text_of_sum(const Terms& terms) const {
    std::string text;
    for (const Term& term : terms | std::views::take(kTermsSaid))
      text += (text.empty() ? "" : " + ") + text_of_term(term);
    if (std::ssize(terms) > kTermsSaid)
      text += fmt::format(" + {} more", std::ssize(terms) - kTermsSaid);
    return text.empty() ? "0" : text;
  }

  const Plan& plan_;
  const StepOrder order_;
  CheckBudget budget_;
  const SharedTerms zero_ = std::make_shared<const Terms>();
  std::map<std::pair<unsigned, unsigned>, Tiles> tiles_;  // of a rank's tensor
  std::map<std::string, std::uint32_t> matrices_;
  std::vector<std::string> names_;  // of matrices, by number
  std::uint32_t step_ = 0;
};

}  // namespace

Result<void> check_shape(const Plan& plan) {
  if (plan.ranks == 0 || plan.ranks > kMostRanks)
    return wrong(fmt::format("a group of {} ranks; 1 to {}", plan.ranks, kMostRanks));
  if (plan.lanes == 0 || plan.lanes > kMostLanes)
    return wrong(fmt::format("{} lanes; 1 to {}", plan.lanes, kMostLanes));
  if (plan.steps.size() > kMostSteps)
    return fail(Code::too_large, fmt::format("{} steps, beyond {}", plan.steps.size(), kMostSteps));
  if (plan.about.find_first_of("\r\n") != std::string::npos)
    return wrong("what it says about itself has more than one line");
  GANTRY_TRY(check_tensors(plan));
  for (const auto* const values : {&plan.given, &plan.wanted})
    for (const PlanValue& value : *values) GANTRY_TRY(check_value(plan, value));
  for (unsigned i = 0; i < plan.steps.size(); ++i) {
    auto checked = check_step(plan, plan.steps[i]);
    if (!checked) return prefixed(std::move(checked).error(), "{}", name_of_step(plan, i));
  }
  return {};
}

Result<PlanFacts> check_plan(const Plan& plan, const PlanLimits& limits,
                             const CheckBudget& budget) {
  return guarded([&]() -> Result<PlanFacts> {
    GANTRY_TRY(check_shape(plan));
    GANTRY_ASSIGN(PlanFacts facts, facts_of(plan));
    for (unsigned rank = 0; rank < plan.ranks; ++rank)
      if (facts.memory[rank] > limits.memory)
        return fail(Code::too_large, fmt::format("rank {} needs {} bytes of tensors, beyond {}",
                                                 rank, facts.memory[rank], limits.memory));
    GANTRY_ASSIGN(StepOrder order, StepOrder::of(plan));
    GANTRY_TRY(Follower(plan, std::move(order), budget).run());
    return facts;
  });
}

Result<PlanFacts> check_plan(const Plan& plan, const PlanLimits& limits) {
  return check_plan(plan, limits, CheckBudget());
}

}  // namespace gantry
