#include "support/dsa/model_faults.hpp"

#include <algorithm>

namespace gantry::dsa {
namespace {

Operand nearest(const Operands& operands, PageFault::Side side) noexcept {
  const auto begin = operands.all.begin();
  const auto end = begin + operands.count;
  const bool written = side == PageFault::Side::destination;
  const auto found =
      std::find_if(begin, end, [written](const Operand& o) { return o.written == written; });
  return found == end ? *begin : *found;
}

}  // namespace

void FaultScript::refuse_next(unsigned submissions, unsigned after) {
  refuse_ = submissions;
  accept_first_ = after;
}

void FaultScript::randomly(const RandomFaults& faults) {
  random_ = faults;
  dice_.seed(faults.seed);
}

bool FaultScript::refuses() {
  if (happens(random_.refusal)) return true;
  if (refuse_ == 0) return false;
  if (accept_first_ > 0) {
    --accept_first_;
    return false;
  }
  --refuse_;
  return true;
}

std::optional<Stop> FaultScript::stop_for(const Descriptor& descriptor) {
  const Operands operands = operands_of(descriptor);
  if (operands.count == 0) return std::nullopt;
  if (!page_faults_.empty()) {
    PageFault& next = page_faults_.front();
    if (next.skip == 0) {
      const Stop stop{next.after, nearest(operands, next.side)};
      page_faults_.pop_front();
      return stop;
    }
    --next.skip;
  }
  if (!happens(random_.page_fault)) return std::nullopt;
  return Stop{below(descriptor.size), operands.all[below(operands.count)]};
}

std::optional<std::uint32_t> FaultScript::batch_fault(std::uint32_t descriptors) {
  if (!batch_faults_.empty()) {
    const std::uint32_t completed = batch_faults_.front();
    batch_faults_.pop_front();
    return std::min(completed, descriptors - 1);
  }
  if (!happens(random_.batch_fault)) return std::nullopt;
  return static_cast<std::uint32_t>(below(descriptors));
}

// Never asked when nothing random was wanted, so that scripted runs do not depend on the seed.
bool FaultScript::happens(double probability) {
  return probability > 0 && std::bernoulli_distribution(probability)(dice_);
}

Bytes FaultScript::below(Bytes limit) {
  return std::uniform_int_distribution<Bytes>(0, limit - 1)(dice_);
}

}  // namespace gantry::dsa
