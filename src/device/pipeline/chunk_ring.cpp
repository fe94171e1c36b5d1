#include "device/pipeline/chunk_ring.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "core/base/sizes.hpp"
#include "device/pipeline/job_check.hpp"

namespace gantry {
namespace {

using Kind = PipelineJob::Argument::Kind;

bool is_chunked(const RunArray& array) noexcept {
  return array.argument->reads() || array.argument->writes() ||
         array.argument->kind == Kind::reduction;
}

/// True if every slot has a buffer of the device's own.
bool has_buffer(const RunArray& array) noexcept {
  return is_chunked(array) && array.staging != Staging::shared && !array.is_ring_shared;
}

Bytes staged_bytes(const RunArray& array, std::uint64_t steps) noexcept {
  const bool is_staged = array.staging == Staging::ring;
  if (!is_chunked(array) || !is_staged) return 0;
  return (slot_bytes(array, steps) + kSmallestPage - 1) / kSmallestPage * kSmallestPage;
}

}  // namespace

Bytes slot_bytes(const RunArray& array, std::uint64_t steps) noexcept {
  return array.argument->kind == Kind::reduction ? array.partials_bytes
                                                 : buffer_bytes(*array.argument, steps);
}

Result<void> ChunkSlot::Stage::add(const Result<DeviceEvent>& event) {
  if (!event) return tl::unexpected(event.error());
  if (!first) first = *event;
  last = *event;
  return {};
}

DeviceTiming ChunkSlot::Stage::timing() const {
  const auto begin = first.timing();
  const auto end = last.timing();
  if (!begin || !end) return {};
  return {begin->submitted, begin->began, end->ended};
}

Result<std::shared_ptr<HostMemory>> HostMemory::make(Bytes size,
                                                     const std::shared_ptr<Registrar>& registrar,
                                                     std::string& why_not) {
  auto memory = std::make_shared<HostMemory>();
  GANTRY_ASSIGN(memory->region, Region::create(size, "gantry-ring", {.shareable = false}));
  GANTRY_TRY(memory->region.touch(0, size));
  if (registrar == nullptr) return memory;
  auto registration = registrar->register_memory({memory->region.data(), memory->region.size()});
  if (registration)
    memory->registration = *std::move(registration);
  else
    why_not = to_string(registration.error());
  return memory;
}

Result<ChunkRing> ChunkRing::make(Device& device, std::span<const RunArray> arrays,
                                  std::uint64_t chunk_steps, unsigned depth,
                                  const std::shared_ptr<Registrar>& registrar) {
  GANTRY_ASSERT(chunk_steps > 0);
  GANTRY_ASSERT(depth > 0);
  ChunkRing ring;
  ring.chunk_steps_ = chunk_steps;
  for (unsigned i = 0; i < depth; ++i) GANTRY_TRY(ring.add_slot(device, arrays));
  GANTRY_TRY(ring.add_host(arrays, registrar));
  GANTRY_TRY(ring.share_host(device, arrays));
  return ring;
}

Result<void> ChunkRing::add_slot(Device& device, std::span<const RunArray> arrays) {
  ChunkSlot slot;
  slot.arrays.resize(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!has_buffer(arrays[i])) continue;
    const Bytes size = slot_bytes(arrays[i], chunk_steps_);
    GANTRY_ASSIGN(slot.arrays[i].buffer, device.allocate(size));
    device_bytes_ += size;
  }
  slots_.push_back(std::move(slot));
  return {};
}

Result<void> ChunkRing::add_host(std::span<const RunArray> arrays,
                                 const std::shared_ptr<Registrar>& registrar) {
  Bytes each = 0;
  for (const RunArray& array : arrays) each += staged_bytes(array, chunk_steps_);
  if (each == 0) return {};
  GANTRY_ASSIGN(host_, HostMemory::make(each * slots_.size(), registrar, why_plain_));
  std::byte* at = host_->region.data();
  for (ChunkSlot& slot : slots_)
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const Bytes size = staged_bytes(arrays[i], chunk_steps_);
      if (size != 0) slot.arrays[i].host = {at, slot_bytes(arrays[i], chunk_steps_)};
      at += size;
    }
  return {};
}

Result<void> ChunkRing::share_host(Device& device, std::span<const RunArray> arrays) {
  for (ChunkSlot& slot : slots_)
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (!arrays[i].is_ring_shared) continue;
      GANTRY_ASSIGN(slot.arrays[i].buffer, device.over(slot.arrays[i].host, host_));
      slot.arrays[i].is_over = true;
    }
  return {};
}

}  // namespace gantry
