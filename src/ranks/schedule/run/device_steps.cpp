#include "ranks/schedule/run/device_steps.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/result.hpp"

namespace gantry {
namespace {

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
      if (!has_place(step)) continue;
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

ByteSpan span_of(const LocalRect& rect) noexcept {
  return {rect.data, (rect.rows - 1) * rect.stride + rect.row_bytes};
}

}  // namespace

std::unordered_map<std::uint32_t, ProductTraffic> device_traffic(
    const Plan& plan, unsigned rank, const std::vector<bool>& is_mirrored) {
  return Traffic(plan, rank, is_mirrored).walk();
}

Result<std::unique_ptr<DeviceSteps>> DeviceSteps::start(const Plan& plan, unsigned rank,
                                                        const PlanPlaces& places,
                                                        const std::shared_ptr<Device>& device,
                                                        std::shared_ptr<DeviceGemmLibrary> library,
                                                        EndedSteps& ended) {
  std::unique_ptr<DeviceSteps> made(new DeviceSteps(plan, places, device));
  made->library_ = std::move(library);
  if (made->library_ == nullptr) {
    GANTRY_ASSIGN(made->library_, open_gemm(device));
  }
  GANTRY_TRY(made->make_mirrors(rank));
  if (device->facts().registering_pays) made->register_memory();
  GANTRY_ASSIGN(made->in_, device->open_queue(QueueRole::copy_in));
  GANTRY_ASSIGN(made->products_, device->open_queue(QueueRole::compute));
  GANTRY_ASSIGN(made->out_, device->open_queue(QueueRole::copy_out));
  GANTRY_TRY(made->check_buffers(rank));
  GANTRY_ASSIGN(made->thread_, StepThread::start(ended));
  return made;
}

// What is queued works on memory that may go after this.
DeviceSteps::~DeviceSteps() {
  if (thread_ != nullptr) cancel();
}

Result<void> DeviceSteps::make_mirrors(unsigned rank) {
  mirrors_.resize(plan_.tensors.size());
  std::vector<bool> is_mirrored(plan_.tensors.size());
  for (std::uint32_t i = 0; i < plan_.steps.size(); ++i) {
    const PlanStep& step = plan_.steps[i];
    if (step.rank != rank || step.verb != PlanVerb::gemm) continue;
    if (!library_->takes(plan_.tensors[step.to.tensor].type))
      return fail(Code::unsupported,
                  fmt::format("{}: {} on {} has no products of that type", name_of_step(plan_, i),
                              library_->facts().library, device_->facts().name));
    for (const PlanPlace* const place : {&step.from, &step.other, &step.to}) {
      const PlanTensor& tensor = plan_.tensors[place->tensor];
      if (places_.memory(place->tensor).buffer != nullptr || is_mirrored[place->tensor]) continue;
      is_mirrored[place->tensor] = true;
      if (bytes_of(tensor) == 0) continue;
      GANTRY_ASSIGN(mirrors_[place->tensor], device_->allocate(bytes_of(tensor)));
    }
  }
  traffic_ = device_traffic(plan_, rank, is_mirrored);
  return {};
}

// A copy of nothing: the queue knows which buffers are its device's.
Result<void> DeviceSteps::check_buffers(unsigned rank) {
  for (unsigned tensor = 0; tensor < plan_.tensors.size(); ++tensor) {
    const DeviceBuffer* const buffer = places_.memory(tensor).buffer;
    if (buffer == nullptr) continue;
    if (auto event = in_->copy_in(*buffer, 0, ConstByteSpan()); !event)
      return fail(event.error().code,
                  fmt::format("rank {}, tensor {}: {}", rank, plan_.tensors[tensor].name,
                              event.error().message),
                  "PlanMemory::buffer lies on PlanExecutorOptions::device");
  }
  return {};
}

// It is only quicker then, so where it cannot be had it is left.
void DeviceSteps::register_memory() {
  const auto registrar = device_->registrar();
  if (!registrar) return;
  for (unsigned tensor = 0; tensor < mirrors_.size(); ++tensor) {
    const PlanMemory& memory = places_.memory(tensor);
    if (!mirrors_[tensor] || memory.data == nullptr) continue;
    const PlanTensor& what = plan_.tensors[tensor];
    const ByteSpan bytes = memory.region != nullptr
                               ? ByteSpan(memory.region->data(), memory.region->size())
                               : span_of(places_.local({0, tensor, {0, 0, what.rows, what.cols}}));
    if (auto registered = (*registrar)->register_memory(bytes))
      registrations_.push_back(std::move(*registered));
  }
}

void DeviceSteps::push(std::uint32_t item, std::uint32_t step) {
  auto event = submit(step);
  thread_->push(item, [event = std::move(event)]() -> Result<void> {
    if (!event) return tl::unexpected(event.error());
    return event->wait();
  });
}

void DeviceSteps::cancel() noexcept {
  for (DeviceQueue* const queue : {in_.get(), products_.get(), out_.get()}) queue->cancel();
  thread_->cancel();
  // Their errors are those of steps, or that they were cancelled.
  for (DeviceQueue* const queue : {in_.get(), products_.get(), out_.get()})
    static_cast<void>(queue->drain());
  last_product_ = last_taken_ = {};
}

// ---- products --------------------------------------------------------------------------------

Result<DeviceEvent> DeviceSteps::submit(std::uint32_t number) {
  const PlanStep& step = plan_.steps[number];
  const ProductTraffic& traffic = traffic_.at(number);
  const std::array places = {&step.from, &step.other, &step.to};
  bool is_any_brought = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!traffic.operands[i].is_brought || is_empty(places[i]->rect)) continue;
    GANTRY_TRY(bring(*places[i], traffic.operands[i]));
    is_any_brought = true;
  }
  if (is_any_brought) {
    GANTRY_ASSIGN(const DeviceEvent brought, in_->record());
    GANTRY_TRY(products_->wait_for(brought));
  }
  if (traffic.is_behind_takes) GANTRY_TRY(products_->wait_for(last_taken_));
  GANTRY_ASSIGN(last_product_,
                library_->multiply(*products_, {.type = plan_.tensors[step.to.tensor].type,
                                                .m = step.to.rect.rows,
                                                .n = step.to.rect.cols,
                                                .k = step.from.rect.cols,
                                                .a = matrix(step.from),
                                                .b = matrix(step.other),
                                                .c = matrix(step.to),
                                                .adds = step.adds}));
  if (!traffic.is_taken || is_empty(step.to.rect)) return last_product_;
  return take(step.to);
}

Result<void> DeviceSteps::bring(const PlanPlace& place, const ProductTraffic::Operand& operand) {
  if (operand.is_behind) {
    GANTRY_TRY(in_->wait_for(last_product_));
    GANTRY_TRY(in_->wait_for(last_taken_));
  }
  const LocalRect from = places_.local(place);
  const DeviceMatrix to = matrix(place);
  const Bytes stride = static_cast<Bytes>(to.stride) * element_bytes(plan_.tensors[place.tensor]);
  GANTRY_TRY(in_->copy_in_rows(*to.buffer, to.offset, span_of(from),
                               {from.rows, from.row_bytes, stride, from.stride}));
  return {};
}

Result<DeviceEvent> DeviceSteps::take(const PlanPlace& place) {
  GANTRY_TRY(out_->wait_for(last_product_));
  const LocalRect to = places_.local(place);
  const DeviceMatrix from = matrix(place);
  const Bytes stride = static_cast<Bytes>(from.stride) * element_bytes(plan_.tensors[place.tensor]);
  GANTRY_ASSIGN(last_taken_, out_->copy_out_rows(*from.buffer, from.offset, span_of(to),
                                                 {to.rows, to.row_bytes, to.stride, stride}));
  return last_taken_;
}

DeviceMatrix DeviceSteps::matrix(const PlanPlace& place) const {
  const PlanTensor& tensor = plan_.tensors[place.tensor];
  const PlanMemory& memory = places_.memory(place.tensor);
  const bool is_mirror = memory.buffer == nullptr;
  const auto element = static_cast<std::int64_t>(element_bytes(tensor));
  const std::int64_t stride =
      is_mirror ? tensor.cols : static_cast<std::int64_t>(memory.stride) / element;
  const std::int64_t first = place.rect.row * stride + place.rect.col;
  return {is_mirror ? &mirrors_[place.tensor] : memory.buffer, static_cast<Bytes>(first * element),
          stride};
}

}  // namespace gantry
