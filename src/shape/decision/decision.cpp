#include <algorithm>
#include <cmath>
#include <gantry/decision.hpp>

#include "core/base/result.hpp"
#include "shape/decision/decision.hpp"
#include "shape/reshape/rows.hpp"

namespace gantry {
namespace {

using Parts = detail::DecisionParts;
using shape::PlaneLayout;

Result<void> check_range(ElementRange range, std::size_t count) {
  if (range.count > 0 && range.first < count && range.count <= count - range.first) return {};
  return fail(Code::invalid_argument,
              fmt::format("decision: elements {} to {} of {}", range.first, range.end(), count),
              "a range has at least one element and ends with the last");
}

Result<void> check_k(std::size_t k, std::size_t count, std::string_view what) {
  if (k > 0 && k <= count) return {};
  return fail(Code::invalid_argument,
              fmt::format("decision: the first {} of {} {}", k, count, what));
}

Result<void> check_query(const Parts& parts, std::size_t count) {
  const std::size_t width = parts.query.size();
  if (width == 0 || count % width != 0)
    return fail(Code::invalid_argument,
                fmt::format("decision: rows of {} elements, as the query: {} elements are no "
                            "whole number of them",
                            width, count));
  for (const float each : parts.query) {
    if (!std::isfinite(each))
      return fail(Code::invalid_argument, fmt::format("decision: a query with {}", each));
  }
  return check_k(parts.k, count / width, "rows");
}

class Present final : public decision::PlaneSource {
 public:
  explicit Present(ConstByteSpan all) noexcept : all_(all) {}
  Result<ConstByteSpan> through(Bytes) override { return all_; }

 private:
  ConstByteSpan all_;
};

class Landing final : public decision::PlaneSource {
 public:
  Landing(Incoming& incoming, Deadline deadline) noexcept
      : incoming_(incoming), deadline_(deadline) {}

  Result<ConstByteSpan> through(Bytes end) override {
    return incoming_.wait_for(std::max(end, incoming_.landed()), deadline_);
  }

 private:
  Incoming& incoming_;
  Deadline deadline_;
};

Result<PlaneLayout> layout_of(const PlanedElements& elements) {
  const std::optional<shape::Element> element = shape::element_of(elements.type);
  if (!element)
    return fail(Code::invalid_argument, fmt::format("planes of {}: no type of 8, 16, 32 or 64 bits",
                                                    to_string(elements.type)));
  return PlaneLayout::make(*element, elements.count, elements.planes);
}

Result<void> check_question(const Parts& parts, std::size_t count) {
  if (std::isnan(parts.limit)) return fail(Code::invalid_argument, "decision: a limit that is NaN");
  for (const ElementRange range : parts.ranges) GANTRY_TRY(check_range(range, count));
  switch (parts.kind) {
    case Parts::Kind::top:
      return check_k(parts.k, parts.has_ranges ? parts.ranges.size() : count,
                     parts.has_ranges ? "groups" : "elements");
    case Parts::Kind::nearest:
      return check_query(parts, count);
    default:
      return {};
  }
}

Result<Decided> decide_from(decision::PlaneSource& source, const PlaneLayout& layout,
                            const Parts& parts, const DecideOptions& options) {
  const shape::FloatMode mode;  // nothing is proven with numbers that count as 0
  decision::Image image(layout, source, options.budget_bytes);
  const auto decided = [&]() -> Result<Decided> {
    switch (parts.kind) {
      case Parts::Kind::top:
        return decision::decide_top(image, parts, options.bounds);
      case Parts::Kind::nearest:
        return decision::decide_nearest(image, parts, options.bounds);
      default:
        return decision::decide_above(image, parts, options.bounds);
    }
  };
  GANTRY_ASSIGN(Decided answer, decided());
  answer.bytes_read = image.bytes_read();
  return answer;
}

}  // namespace

Result<Bytes> PlanedElements::bytes() const {
  GANTRY_ASSIGN(const PlaneLayout layout, layout_of(*this));
  return layout.bytes();
}

Decision Decision::top(std::size_t k) {
  Decision decision;
  decision.parts_.k = k;
  return decision;
}

Decision Decision::among(std::vector<ElementRange> groups) const {
  Decision decision = *this;
  decision.parts_.has_ranges = true;
  decision.parts_.ranges = std::move(groups);
  return decision;
}

Decision Decision::above(double limit) {
  Decision decision;
  decision.parts_.kind = Parts::Kind::above;
  decision.parts_.limit = limit;
  return decision;
}

Decision Decision::above(double limit, ElementRange region) {
  return above(limit).among({region});
}

Decision Decision::any_of(double limit, std::vector<ElementRange> regions) {
  Decision decision = above(limit).among(std::move(regions));
  decision.parts_.kind = Parts::Kind::any_of;
  return decision;
}

Decision Decision::nearest(std::vector<float> query, std::size_t k, Metric metric) {
  Decision decision;
  decision.parts_.kind = Parts::Kind::nearest;
  decision.parts_.query = std::move(query);
  decision.parts_.k = k;
  decision.parts_.metric = metric;
  return decision;
}

Result<Bounds> bounds_of(ConstByteSpan planes, const PlanedElements& elements, ElementRange range,
                         unsigned planes_read) {
  return guarded([&]() -> Result<Bounds> {
    GANTRY_ASSIGN(const PlaneLayout layout, layout_of(elements));
    GANTRY_TRY(check_range(range, layout.count()));
    if (planes_read > layout.planes())
      return fail(Code::invalid_argument,
                  fmt::format("bounds: {} planes of {}", planes_read, layout.planes()));
    const shape::FloatMode mode;
    Present present(planes);
    decision::Image image(layout, present, std::numeric_limits<Bytes>::max());
    const decision::Values& values = image.values();
    Bounds bounds{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                  false};
    for (std::size_t element = range.first; element < range.end(); ++element) {
      const std::size_t cell = element / image.per_cell();
      std::uint64_t codes[8] = {};
      if (planes_read > 0) {
        GANTRY_ASSIGN(const bool is_there, image.open(cell, 0, planes_read));
        if (!is_there)
          return fail(Code::invalid_argument,
                      fmt::format("bounds: plane {} of element {} is not in the {} bytes",
                                  planes_read, element, planes.size()));
        image.add(cell, 0, planes_read, codes);
      }
      const decision::CodeSpan span =
          values.span_of(codes[element % image.per_cell()], planes_read * image.digits());
      const decision::CodeSpan numbers = values.numbers_of(span);
      bounds.has_nan = bounds.has_nan || values.may_be_nan(span);
      if (numbers.lo > numbers.hi) continue;
      bounds.lo = std::min(bounds.lo, values.value_of(numbers.lo));
      bounds.hi = std::max(bounds.hi, values.value_of(numbers.hi));
    }
    return bounds;
  });
}

Result<Decided> decide(ConstByteSpan planes, const PlanedElements& elements,
                       const Decision& question, const DecideOptions& options) {
  return guarded([&]() -> Result<Decided> {
    GANTRY_ASSIGN(const PlaneLayout layout, layout_of(elements));
    GANTRY_TRY(check_question(question.parts(), layout.count()));
    if (planes.size() > layout.bytes())
      return fail(Code::invalid_argument,
                  fmt::format("planes: {} bytes, and {} elements of {} have {}", planes.size(),
                              layout.count(), to_string(elements.type), layout.bytes()),
                  "give PlanedElements as the planes were made");
    Present present(planes);
    return decide_from(present, layout, question.parts(), options);
  });
}

Result<Decided> decide(Incoming& incoming, const PlanedElements& elements, const Decision& question,
                       const DecideOptions& options) {
  return guarded([&]() -> Result<Decided> {
    GANTRY_ASSIGN(const shape::PlaneLayout layout, layout_of(elements));
    GANTRY_TRY(check_question(question.parts(), layout.count()));
    if (incoming.size() != layout.bytes())
      return fail(
          Code::invalid_argument,
          fmt::format("planes: a message of {} bytes, and {} elements of {} have {}",
                      incoming.size(), layout.count(), to_string(elements.type), layout.bytes()),
          "give PlanedElements as the planes were made");
    Landing landing(incoming, options.deadline);
    return decide_from(landing, layout, question.parts(), options);
  });
}

}  // namespace gantry
