#include "schedule/collective/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/result.hpp"

namespace gantry::collective {
namespace {

std::string_view sign_of(Op op) noexcept {
  switch (op) {
    case Op::add:
      return "+";
    case Op::subtract:
      return "-";
    case Op::divide:
      return "/";
    case Op::modulo:
      return "%";
    default:
      return "*";
  }
}

bool compare(Op op, Number a, Number b) noexcept {
  switch (op) {
    case Op::below:
      return a < b;
    case Op::at_most:
      return a <= b;
    case Op::above:
      return a > b;
    case Op::at_least:
      return a >= b;
    case Op::equal:
      return a == b;
    default:
      return a != b;
  }
}

}  // namespace

Number Evaluator::fail_with(Code code, std::string what, std::string hint) {
  if (!error_) error_ = Error{code, std::move(what), std::move(hint)};
  return 0;
}

Result<void> Evaluator::result() const {
  if (error_) return tl::unexpected(*error_);
  return {};
}

bool Evaluator::spend(std::size_t work) {
  work_ += work;
  if (work_ > kMostWork)
    fail_with(Code::too_large, fmt::format("it takes more than {} evaluations", kMostWork),
              "expand for fewer ranks or chunks, or loop less");
  return !has_failed();
}

Number Evaluator::value_of(ExprId id) {
  if (!spend()) return 0;
  const Expr& node = script_.expressions[id];
  switch (node.op) {
    case Op::number:
      return node.value;
    case Op::variable:
      return slots_[node.slot];
    case Op::counts:
    case Op::negative:
    case Op::negation:
      return unary(node);
    case Op::slice:
      return slice(node);
    case Op::call:
      return call(node);
    case Op::sum:
    case Op::least:
    case Op::greatest:
      return over(node);
    default:
      return binary(node);
  }
}

Number Evaluator::unary(const Expr& node) {
  const Number a = value_of(node.a);
  if (node.op == Op::counts) return count(a);
  return node.op == Op::negation ? Number{a == 0} : arithmetic(Op::subtract, 0, a);
}

Number Evaluator::count(Number index) {
  if (has_failed()) return 0;
  if (index >= 0 && static_cast<std::size_t>(index) < counts_.size())
    return counts_[static_cast<std::size_t>(index)];
  return fail_with(Code::invalid_argument,
                   fmt::format("counts[{}] where there are {} counts", index, counts_.size()));
}

Number Evaluator::slice(const Expr& node) {
  constexpr Number kCountsOfWork = 16;  // so many take as long as a node
  const Number first = value_of(node.a);
  const Number end = value_of(node.b);
  const Number step = node.c == kNoExpr ? 1 : value_of(node.c);
  if (has_failed() || first >= end) return 0;
  if (step < 1)
    return fail_with(Code::invalid_argument, fmt::format("counts[{}:{}:{}]", first, end, step),
                     "the step is 1 or more");
  Number sum = count(first);
  if (has_failed()) return 0;
  const Number more = (end - 1 - first) / step;
  static_cast<void>(count(first + more * step));  // of all the furthest
  if (!spend(static_cast<std::size_t>(more / kCountsOfWork))) return 0;
  for (Number i = 1; i <= more; ++i)
    sum = arithmetic(Op::add, sum, counts_[static_cast<std::size_t>(first + i * step)]);
  return sum;
}

Number Evaluator::binary(const Expr& node) {
  const Number a = value_of(node.a);
  // What a condition rules out is not evaluated.
  if (node.op == Op::both && a == 0) return 0;
  if (node.op == Op::either && a != 0) return 1;
  const Number b = value_of(node.b);
  if (has_failed()) return 0;
  switch (node.op) {
    case Op::both:
    case Op::either:
      return Number{b != 0};
    case Op::lesser:
      return std::min(a, b);
    case Op::greater:
      return std::max(a, b);
    case Op::add:
    case Op::subtract:
    case Op::multiply:
      return arithmetic(node.op, a, b);
    case Op::divide:
    case Op::modulo:
      return quotient(node.op, a, b);
    default:
      return Number{compare(node.op, a, b)};
  }
}

Number Evaluator::arithmetic(Op op, Number a, Number b) {
  Number value = 0;
  const bool overflows = op == Op::add        ? __builtin_add_overflow(a, b, &value)
                         : op == Op::subtract ? __builtin_sub_overflow(a, b, &value)
                                              : __builtin_mul_overflow(a, b, &value);
  if (!overflows) return value;
  return fail_with(Code::invalid_argument,
                   fmt::format("{} {} {} is beyond all numbers", a, sign_of(op), b));
}

// Rounded down, so that what is left has the divisor's sign: (r - 1) % ranks is the one before.
Number Evaluator::quotient(Op op, Number a, Number b) {
  if (b == 0)
    return fail_with(Code::invalid_argument,
                     fmt::format("{} {} 0: division by zero", a, sign_of(op)));
  if (a == std::numeric_limits<Number>::min() && b == -1)
    return op == Op::modulo ? 0 : arithmetic(Op::subtract, 0, a);
  const Number rest = a % b;
  const bool rounds_up = rest != 0 && (rest < 0) != (b < 0);
  if (op == Op::modulo) return rounds_up ? rest + b : rest;
  return a / b - (rounds_up ? 1 : 0);
}

Number Evaluator::call(const Expr& node) {
  const Function& function = script_.functions[node.slot];
  std::array<Number, kMostParameters> values{};
  for (std::size_t i = 0; i < function.parameters.size(); ++i)
    values[i] = value_of(script_.arguments[node.a + i]);
  // Functions do not call themselves, so nobody else needs these slots meanwhile.
  for (std::size_t i = 0; i < function.parameters.size(); ++i)
    slots_[function.parameters[i]] = values[i];
  return value_of(function.body);
}

Number Evaluator::over(const Expr& node) {
  const Number first = value_of(node.a);
  const Number end = value_of(node.b);
  if (node.op != Op::sum && first >= end && !has_failed())
    return fail_with(Code::invalid_argument,
                     fmt::format("the least or greatest of nothing: {}:{}", first, end));
  Number result = 0;
  for (Number i = first; i < end && spend(); ++i) {
    slots_[node.slot] = i;
    const Number value = value_of(node.c);
    if (node.op == Op::sum)
      result = arithmetic(Op::add, result, value);
    else if (i == first)
      result = value;
    else
      result = node.op == Op::least ? std::min(result, value) : std::max(result, value);
  }
  return result;
}

}  // namespace gantry::collective
