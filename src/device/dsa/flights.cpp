#include "device/dsa/flights.hpp"

#include <algorithm>
#include <cerrno>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/base/os/populate.hpp"
#include "device/dsa/descriptor.hpp"

namespace gantry::dsa {

Flights::Flights(const QueueTraits& traits)
    : entries_(std::max(traits.entries, 1u)),
      batch_most_(std::min<std::size_t>(traits.max_batch, kBatchMost)),
      batch_least_(std::max(traits.least_batch, 2u)) {
  free_.reserve(kMost);
  busy_.reserve(kMost);
  for (std::size_t slot = kMost; slot-- > 0;) free_.push_back(static_cast<std::uint8_t>(slot));
}

// ---- handing over --------------------------------------------------------------------------

std::size_t Flights::room() const noexcept {
  const std::size_t places = queued_ < entries_ ? entries_ - queued_ : 0;
  const std::size_t parts = batch_most_ >= batch_least_ ? places * batch_most_ : places;
  return std::min(parts, free_.size());
}

std::uint8_t Flights::take_slot(Part* part) noexcept {
  const std::uint8_t index = free_.back();
  free_.pop_back();
  busy_.push_back(index);
  Slot& slot = memory_->slots[index];
  clear(slot.record);  // I3
  slot.part = part;
  slot.batch = kSingle;
  slot.since_ns = monotonic_ns();
  return index;
}

void Flights::free_slot(std::uint8_t slot) noexcept {
  GANTRY_DEBUG_ASSERT(busy_.size() + free_.size() == kMost);
  busy_.erase(std::find(busy_.begin(), busy_.end(), slot));
  free_.push_back(slot);
}

Flights::Batch* Flights::free_batch() noexcept {
  const auto found = std::find_if(memory_->batches.begin(), memory_->batches.end(),
                                  [](const Batch& batch) { return batch.size == 0; });
  return found == memory_->batches.end() ? nullptr : &*found;
}

Taken Flights::submit(WorkQueue& queue, std::span<Part* const> parts) noexcept {
  Taken all;
  while (all.count < parts.size() && room() > 0) {
    const std::span rest = parts.subspan(all.count);
    const std::size_t most = std::min({rest.size(), batch_most_, free_.size()});
    Batch* batch = most >= batch_least_ ? free_batch() : nullptr;
    const std::size_t wanted =
        batch != nullptr ? most : std::min(rest.size(), std::min(entries_ - queued_, free_.size()));
    const Taken taken = batch != nullptr ? submit_batch(queue, *batch, rest.first(most))
                                         : submit_singles(queue, rest.first(wanted));
    all.count += taken.count;
    if (batch != nullptr && taken.error == EINVAL) continue;  // no batches after all
    all.error = taken.error;
    if (taken.count < wanted) return all;
  }
  return all;
}

Taken Flights::enter(WorkQueue& queue, std::span<const Descriptor> descriptors) noexcept {
  const Taken taken = queue.submit(descriptors);
  GANTRY_DEBUG_ASSERT(taken.count <= descriptors.size());
  queued_ += taken.count;
  counts_.submissions += taken.count > 0;
  counts_.refusals +=
      taken.count < descriptors.size() && (taken.error == 0 || taken.error == EAGAIN);
  return taken;
}

Taken Flights::submit_singles(WorkQueue& queue, std::span<Part* const> parts) noexcept {
  std::array<Descriptor, kBatchMost> list;
  std::array<std::uint8_t, kBatchMost> slots;
  const std::size_t count = std::min(parts.size(), list.size());
  for (std::size_t i = 0; i < count; ++i) {
    slots[i] = take_slot(parts[i]);
    list[i] = describe(*parts[i], memory_->slots[slots[i]].record);
  }
  const Taken taken = enter(queue, {list.data(), count});
  counts_.descriptors += taken.count;
  for (std::size_t i = taken.count; i < count; ++i) free_slot(slots[i]);
  return taken;
}

Taken Flights::submit_batch(WorkQueue& queue, Batch& batch, std::span<Part* const> parts) noexcept {
  batch.size = static_cast<std::uint32_t>(parts.size());
  batch.first = 0;
  batch.to_resume = batch.unclear = false;
  const auto number = static_cast<std::uint8_t>(&batch - memory_->batches.data());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    batch.slots[i] = take_slot(parts[i]);
    Slot& slot = memory_->slots[batch.slots[i]];
    slot.batch = number;
    batch.list[i] = describe(*parts[i], slot.record);
  }
  const Taken taken = enter_batch(queue, batch);
  if (taken.count == 1) {
    counts_.descriptors += parts.size();
    return {parts.size(), 0};
  }
  for (std::size_t i = 0; i < parts.size(); ++i) free_slot(batch.slots[i]);
  batch.size = 0;
  if (taken.error == EINVAL) batch_most_ = 0;
  return {0, taken.error};
}

// Hands over what is left of it: the whole list at first, the rest after a fault on the list.
Taken Flights::enter_batch(WorkQueue& queue, Batch& batch) noexcept {
  batch.record = {};  // I3
  Descriptor order;
  order.set(Opcode::batch, Flags::completion_valid | Flags::request_completion);
  order.completion = address_of(&batch.record);
  order.source = address_of(&batch.list[batch.first]);
  order.size = batch.size - batch.first;
  const Taken taken = enter(queue, {&order, 1});
  counts_.batches += taken.count;
  return taken;
}

// ---- coming back ---------------------------------------------------------------------------

void Flights::land(WorkQueue& queue, std::vector<Landed>& landed) noexcept {
  for (std::size_t i = busy_.size(); i-- > 0;) {
    const std::uint8_t index = busy_[i];
    Slot& slot = memory_->slots[index];
    const std::uint8_t status = load_status(slot.record);
    if (status == 0) continue;
    GANTRY_DEBUG_ASSERT(slot.batch != kSingle || queued_ > 0);  // I2
    if (slot.batch == kSingle) --queued_;
    land_slot(index, status, landed);
  }
  for (Batch& batch : memory_->batches)
    if (batch.size != 0) land_batch(queue, batch, landed);
}

void Flights::land_slot(std::uint8_t index, std::uint8_t status,
                        std::vector<Landed>& landed) noexcept {
  Slot& slot = memory_->slots[index];
  landed.push_back({slot.part, slot.record, status, monotonic_ns() - slot.since_ns});
  slot.part = nullptr;
  free_slot(index);
}

void Flights::land_batch(WorkQueue& queue, Batch& batch, std::vector<Landed>& landed) noexcept {
  if (batch.to_resume) return resume_batch(queue, batch);
  const std::uint8_t status = batch.unclear ? std::uint8_t{0} : load_status(batch.record);
  if (status == 0) return;
  GANTRY_DEBUG_ASSERT(queued_ > 0);  // I2
  --queued_;
  switch (status_in(status)) {
    case Status::batch_page_fault: {
      ++counts_.batch_faults;
      // A batch that claims more than there was has ended; what was not answered was not begun.
      batch.first += std::min(batch.record.bytes_completed, batch.size - batch.first);
      if (batch.first == batch.size) return end_batch(batch, landed);
      batch.to_resume = true;
      return resume_batch(queue, batch);
    }
    case Status::success:
    case Status::batch_failed:
      return end_batch(batch, landed);
    case Status::bad_opcode:
    case Status::bad_flags:
    case Status::reserved_not_zero:
    case Status::count_out_of_range:
    case Status::list_misaligned:
      batch_most_ = 0;  // it takes no batches, whatever its attributes say
      return end_batch(batch, landed);
    default:
      batch.unclear = true;
  }
}

// The list goes on behind the descriptors that were done. A single one left is no batch.
void Flights::resume_batch(WorkQueue& queue, Batch& batch) noexcept {
  if (queued_ >= entries_) return;  // I2; land() tries again
  static_cast<void>(populate({reinterpret_cast<std::byte*>(batch.list.data()), sizeof batch.list},
                             PageAccess::read));
  if (batch.size - batch.first > 1) {
    batch.to_resume = enter_batch(queue, batch).count == 0;
    return;
  }
  if (enter(queue, {&batch.list[batch.first], 1}).count == 0) return;
  memory_->slots[batch.slots[batch.first]].batch = kSingle;
  batch.size = 0;
}

// Its operations have answered for themselves; those that have not were not begun.
void Flights::end_batch(Batch& batch, std::vector<Landed>& landed) noexcept {
  const auto number = static_cast<std::uint8_t>(&batch - memory_->batches.data());
  for (std::uint32_t i = 0; i < batch.size; ++i) {
    Slot& slot = memory_->slots[batch.slots[i]];
    if (slot.part != nullptr && slot.batch == number)
      land_slot(batch.slots[i], load_status(slot.record), landed);
  }
  batch.size = 0;
}

// ---- time ----------------------------------------------------------------------------------

bool Flights::has_batches() const noexcept {
  return std::any_of(memory_->batches.begin(), memory_->batches.end(),
                     [](const Batch& batch) { return batch.size != 0 && !batch.unclear; });
}

std::uint64_t Flights::oldest_ns() const noexcept {
  std::uint64_t oldest = ~std::uint64_t{0};
  for (const std::uint8_t slot : busy_) oldest = std::min(oldest, memory_->slots[slot].since_ns);
  return oldest;
}

const CompletionRecord* Flights::oldest_record() const noexcept {
  return busy_.empty() ? nullptr : &memory_->slots[busy_.front()].record;
}

void Flights::take_back(std::vector<Part*>& parts) noexcept {
  for (const std::uint8_t slot : busy_) {
    parts.push_back(memory_->slots[slot].part);
    memory_->slots[slot].part = nullptr;
    free_.push_back(slot);
  }
  busy_.clear();
  for (Batch& batch : memory_->batches) batch.size = 0;
  queued_ = 0;
}

void Flights::leak() noexcept {
  busy_.clear();
  memory_.leave();
}

}  // namespace gantry::dsa
