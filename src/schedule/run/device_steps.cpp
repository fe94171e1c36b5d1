#include "schedule/run/device_steps.hpp"

#include <fmt/format.h>

#include "base/result.hpp"

namespace gantry {
namespace {

Bytes element_bytes_of(const PlanTensor& tensor) noexcept {
  return tensor.type.bits / kBitsOfByte;
}

Bytes dense_bytes(const PlanTensor& tensor) noexcept {
  return static_cast<Bytes>(tensor.rows) * static_cast<Bytes>(tensor.cols) *
         element_bytes_of(tensor);
}

bool is_empty(const PlanPlace& place) noexcept {
  return place.rect.rows == 0 || place.rect.cols == 0;
}

ByteSpan span_of(const LocalRect& rect) noexcept {
  return {rect.data, (rect.rows - 1) * rect.stride + rect.row_bytes};
}

}  // namespace

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
      if (dense_bytes(tensor) == 0) continue;
      GANTRY_ASSIGN(mirrors_[place->tensor], device_->allocate(dense_bytes(tensor)));
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
    if (!traffic.operands[i].is_brought || is_empty(*places[i])) continue;
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
  if (!traffic.is_taken || is_empty(step.to)) return last_product_;
  return take(step.to);
}

Result<void> DeviceSteps::bring(const PlanPlace& place, const ProductTraffic::Operand& operand) {
  if (operand.is_behind) {
    GANTRY_TRY(in_->wait_for(last_product_));
    GANTRY_TRY(in_->wait_for(last_taken_));
  }
  const LocalRect from = places_.local(place);
  const DeviceMatrix to = matrix(place);
  const Bytes stride =
      static_cast<Bytes>(to.stride) * element_bytes_of(plan_.tensors[place.tensor]);
  GANTRY_TRY(in_->copy_in_rows(*to.buffer, to.offset, span_of(from),
                               {from.rows, from.row_bytes, stride, from.stride}));
  return {};
}

Result<DeviceEvent> DeviceSteps::take(const PlanPlace& place) {
  GANTRY_TRY(out_->wait_for(last_product_));
  const LocalRect to = places_.local(place);
  const DeviceMatrix from = matrix(place);
  const Bytes stride =
      static_cast<Bytes>(from.stride) * element_bytes_of(plan_.tensors[place.tensor]);
  GANTRY_ASSIGN(last_taken_, out_->copy_out_rows(*from.buffer, from.offset, span_of(to),
                                                 {to.rows, to.row_bytes, to.stride, stride}));
  return last_taken_;
}

DeviceMatrix DeviceSteps::matrix(const PlanPlace& place) const {
  const PlanTensor& tensor = plan_.tensors[place.tensor];
  const PlanMemory& memory = places_.memory(place.tensor);
  const bool is_mirror = memory.buffer == nullptr;
  const auto element = static_cast<std::int64_t>(element_bytes_of(tensor));
  const std::int64_t stride =
      is_mirror ? tensor.cols : static_cast<std::int64_t>(memory.stride) / element;
  const std::int64_t first = place.rect.row * stride + place.rect.col;
  return {is_mirror ? &mirrors_[place.tensor] : memory.buffer, static_cast<Bytes>(first * element),
          stride};
}

}  // namespace gantry
