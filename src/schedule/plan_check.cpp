#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <set>

#include "base/result.hpp"
#include "schedule/plan_shape.hpp"
#include "schedule/step_order.hpp"
#include "schedule/tiles.hpp"

namespace gantry {
namespace {

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
      if (done) continue;
      Error error = std::move(done).error();
      error.message = fmt::format("{}: {}", name_of_step(plan_, step), error.message);
      return tl::unexpected(std::move(error));
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
      error.message = text_of(plan_, value.place) + ": " + error.message;
      return tl::unexpected(std::move(error));
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
