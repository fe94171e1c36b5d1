#include "schedule/run/device_traffic.hpp"

#include <algorithm>

namespace gantry {
namespace {

bool overlap(const PlanRect& one, const PlanRect& other) noexcept {
  return one.row < other.row + other.rows && other.row < one.row + one.rows &&
         one.col < other.col + other.cols && other.col < one.col + one.cols;
}

bool contains(const PlanRect& outer, const PlanRect& inner) noexcept {
  return outer.row <= inner.row && inner.row + inner.rows <= outer.row + outer.rows &&
         outer.col <= inner.col && inner.col + inner.cols <= outer.col + outer.cols;
}

bool any_overlaps(const std::vector<PlanRect>& rects, const PlanRect& rect) {
  return std::ranges::any_of(rects, [&](const PlanRect& one) { return overlap(one, rect); });
}

bool any_contains(const std::vector<PlanRect>& rects, const PlanRect& rect) {
  return std::ranges::any_of(rects, [&](const PlanRect& one) { return contains(one, rect); });
}

void add(std::vector<PlanRect>& rects, const PlanRect& rect) {
  if (!any_contains(rects, rect)) rects.push_back(rect);
}

class Traffic {
 public:
  Traffic(const Plan& plan, unsigned rank, const std::vector<bool>& is_mirrored)
      : plan_(plan), rank_(rank), is_mirrored_(is_mirrored), tensors_(plan.tensors.size()) {}

  std::unordered_map<std::uint32_t, ProductTraffic> walk() {
    for (std::uint32_t i = 0; i < plan_.steps.size(); ++i) {
      const PlanStep& step = plan_.steps[i];
      if (step.verb == PlanVerb::signal || step.verb == PlanVerb::barrier) continue;
      if (step.verb != PlanVerb::gemm) {
        if (step.verb != PlanVerb::fill) by_host(step.from, false);
        by_host(step.to, true);
      } else if (step.rank == rank_) {
        multiply(i, step);
      }
    }
    for (const Tensor& tensor : tensors_)
      for (const Result& result : tensor.results) all_[result.step].is_taken = true;
    return std::move(all_);
  }

 private:
  struct Result {
    PlanRect rect;
    std::uint32_t step = 0;
  };
  struct Tensor {
    std::vector<PlanRect> on_device;  // where the mirror has what the tensor has
    std::vector<PlanRect> used;       // by products so far
    std::vector<PlanRect> taken;
    std::vector<Result> results;  // not known yet whether the host gets them
  };

  // The host reads only what it has, and writes what the device has not got then.
  void by_host(const PlanPlace& place, bool writes) {
    if (place.rank != rank_ || !is_mirrored_[place.tensor]) return;
    Tensor& tensor = tensors_[place.tensor];
    take_results(tensor, place.rect);
    if (writes)
      std::erase_if(tensor.on_device,
                    [&](const PlanRect& rect) { return overlap(rect, place.rect); });
  }

  void take_results(Tensor& tensor, const PlanRect& rect) {
    std::erase_if(tensor.results, [&](const Result& result) {
      if (!overlap(result.rect, rect)) return false;
      all_[result.step].is_taken = true;
      add(tensor.taken, result.rect);
      return true;
    });
  }

  void multiply(std::uint32_t number, const PlanStep& step) {
    ProductTraffic traffic;
    traffic.operands[0] = read(step.from);
    traffic.operands[1] = read(step.other);
    if (is_mirrored_[step.to.tensor]) {
      Tensor& tensor = tensors_[step.to.tensor];
      const PlanRect& rect = step.to.rect;
      // Of a chain of sums in one place the host gets the last one only.
      if (step.adds)
        std::erase_if(tensor.results, [&](const Result& one) { return one.rect == rect; });
      take_results(tensor, rect);
      if (step.adds) traffic.operands[2] = read(step.to);
      traffic.is_behind_takes = any_overlaps(tensor.taken, rect);
      add(tensor.on_device, rect);
      add(tensor.used, rect);
      tensor.results.push_back({rect, number});
    }
    all_[number] = traffic;
  }

  ProductTraffic::Operand read(const PlanPlace& place) {
    ProductTraffic::Operand operand;
    if (!is_mirrored_[place.tensor]) return operand;
    Tensor& tensor = tensors_[place.tensor];
    if (!any_contains(tensor.on_device, place.rect)) {
      take_results(tensor, place.rect);
      operand = {true, any_overlaps(tensor.used, place.rect)};
      add(tensor.on_device, place.rect);
    }
    add(tensor.used, place.rect);
    return operand;
  }

  const Plan& plan_;
  const unsigned rank_;
  const std::vector<bool>& is_mirrored_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::uint32_t, ProductTraffic> all_;
};

}  // namespace

std::unordered_map<std::uint32_t, ProductTraffic> device_traffic(
    const Plan& plan, unsigned rank, const std::vector<bool>& is_mirrored) {
  return Traffic(plan, rank, is_mirrored).walk();
}

}  // namespace gantry
