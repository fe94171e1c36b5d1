#include <gantry/shape.hpp>
#include <tuple>

#include "core/base/result.hpp"
#include "core/tensor/element.hpp"
#include "core/tensor/groups.hpp"
#include "core/tensor/plan_source.hpp"

namespace gantry {
namespace {

constexpr std::string_view kArrow = "->";

tl::unexpected<Error> refuse(std::string what, std::string hint = {}) {
  return fail(Code::invalid_argument, std::move(what), std::move(hint));
}

// Bytes without a tensor as one row of numbers.
Result<Tensor> row_of(DataType type, Bytes bytes) {
  Bytes each = 1, numbers = 1;  // bytes and numbers of what cannot be cut
  if (const auto groups = groups_of(type)) {
    each = shape::bytes_of(*groups);
    numbers = groups->size;
  } else if (const auto element = shape::element_of(type)) {
    const unsigned bits = shape::facts_of(*element).bits;
    each = bits < 8 ? 1 : bits / 8;
    numbers = bits < 8 ? 8 / bits : 1;
  }
  if (bytes % each != 0)
    return refuse(fmt::format("{} bytes are no whole number of {}, of {} bytes", bytes,
                              to_string(type), each));
  const std::int64_t count = static_cast<std::int64_t>(bytes / each * numbers);
  return Tensor::dense(type, {&count, 1});
}

Result<ReshapePlan> plan_as(const As& as, const std::optional<Tensor>& tensor, Bytes bytes) {
  const auto& [to, from, exact, plan] = std::tie(as.to, as.from, as.exact, as.plan);
  if (plan) {
    if (tensor && !shape::is_alike(plan->source(), *tensor))
      return refuse(
          fmt::format("the tensor that is sent is not the one of the plan, {}", plan->text()));
    if (bytes < plan->source_bytes())
      return refuse(fmt::format("{} bytes are sent, the plan reads {}: {}", bytes,
                                plan->source_bytes(), plan->text()));
    const ReshapeError& error = plan->error();
    if (exact && (error.kind != ReshapeError::Kind::exact || error.saturates))
      return refuse("the plan is not exact: " + plan->text(),
                    "take a type that holds every value, or do without `exact`");
    return *plan;
  }
  if (!tensor && !from)
    return refuse(fmt::format("{} bytes without a tensor cannot become {}", bytes, to_string(to)),
                  "send a tensor, or say what they are: \"f32 -> " + to_string(to) + "\"");
  if (tensor && from && tensor->type != *from)
    return refuse(fmt::format("a tensor of {} is sent where {} was said to come",
                              to_string(tensor->type), to_string(*from)));
  Tensor source;
  if (tensor) {
    source = *tensor;
  } else {
    GANTRY_ASSIGN(source, row_of(*from, bytes));
  }
  if (!source.fits(bytes)) return tl::unexpected(shape::does_not_fit(source, bytes));
  if (source.dimensions > Tensor::kMaxDimensions) return ReshapePlan::make(to, source);
  return ReshapePlan::make(Tensor::dense(to, {source.shape.data(), source.dimensions}), source,
                           {.exact = exact});
}

}  // namespace

As::As(DataType type) noexcept : to(type), maker_(plan_as) {}
As::As(ReshapePlan all) noexcept
    : to(all.destination().type), plan(std::move(all)), maker_(plan_as) {}

Result<As> As::parse(std::string_view text) {
  const std::size_t arrow = text.find(kArrow);
  if (arrow == std::string_view::npos)
    return parse_type(text).map([](DataType t) { return As(t); });
  GANTRY_ASSIGN(const DataType from, parse_type(text.substr(0, arrow)));
  GANTRY_ASSIGN(const DataType to, parse_type(text.substr(arrow + kArrow.size())));
  As as(to);
  as.from = from;
  return as;
}

}  // namespace gantry
