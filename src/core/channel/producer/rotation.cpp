#include "core/channel/producer/rotation.hpp"

#include <algorithm>
#include <bit>

namespace gantry {

std::size_t Rotation::class_of(Bytes size) noexcept {
  return static_cast<std::size_t>(std::bit_width(size == 0 ? 0 : size - 1));
}

// I1. By the largest size of the class.
bool Rotation::is_possible(std::size_t choice, std::size_t of_class) const noexcept {
  if (choice == 0) return true;
  const unsigned places = choices()[choice];
  return places < least_ ? places == 1
                         : places > least_ && (Bytes{places} << of_class) <= most_bytes_;
}

unsigned Rotation::places(Bytes size) const noexcept {
  const std::size_t mine = class_of(size);
  if (size > SlotTable::kLargestSpare) return least_;
  return choices()[mine == tried_class_ ? tried_ : classes_[mine].chosen];
}

unsigned Rotation::most_places() const noexcept {
  unsigned most = tried_class_ == kNobody ? least_ : choices()[tried_];
  for (const Class& one : classes_) most = std::max(most, choices()[one.chosen]);
  return most;
}

bool Rotation::took(Bytes size, std::uint64_t ticks) noexcept {
  if (size == 0 || size > SlotTable::kLargestSpare) return false;
  const std::size_t mine = class_of(size);
  if (mine == tried_class_) {
    others_ = 0;
    if (warm_up_ > 0) {  // I2
      --warm_up_;
      return false;
    }
    samples_[count_++] = static_cast<double>(ticks) * 1024 / static_cast<double>(size);
    if (count_ < samples(mine)) return false;
    const auto seen = std::span(samples_).first(count_);
    std::ranges::nth_element(seen, seen.begin() + count_ / 2);
    costs_[tried_] = seen[count_ / 2];
    try_next();
    if (tried_ < kChoices) return false;
    end_trial();
    return true;
  }
  if (classes_[mine].idle > 0) --classes_[mine].idle;
  if (tried_class_ != kNobody && ++others_ > kMostOthers) {  // I4
    give_up_trial();
    return true;
  }
  if (classes_[mine].idle == 0 && tried_class_ == kNobody) begin_trial(mine);  // I3
  return false;
}

void Rotation::begin_trial(std::size_t of_class) noexcept {
  tried_class_ = of_class;
  tried_ = classes_[of_class].chosen;
  costs_ = {};
  warm_up_ = count_ = 0;
  others_ = 0;
}

void Rotation::give_up_trial() noexcept {
  Class& mine = classes_[tried_class_];
  mine.idle = mine.next_idle;
  tried_class_ = kNobody;
}

// The first one that was not measured yet; kChoices: none.
void Rotation::try_next() noexcept {
  tried_ = 0;
  while (tried_ < kChoices && (costs_[tried_] != 0 || !is_possible(tried_, tried_class_))) ++tried_;
  count_ = 0;
  warm_up_ = tried_ < kChoices ? choices()[tried_] : 0;
}

void Rotation::end_trial() noexcept {
  Class& mine = classes_[tried_class_];
  std::size_t best = mine.chosen;
  for (std::size_t choice = 0; choice < kChoices; ++choice)
    if (costs_[choice] != 0 && costs_[choice] < costs_[best]) best = choice;
  const bool is_new = costs_[best] * kLeastGain < costs_[mine.chosen];
  mine.next_idle =
      is_new || !mine.is_measured ? kLeastIdle : std::min(2 * mine.next_idle, kMostIdle);
  if (is_new) mine.chosen = static_cast<std::uint8_t>(best);
  mine.idle = mine.next_idle;
  mine.is_measured = true;
  mine.costs = costs_;
  tried_class_ = kNobody;
}

Rotation::Told Rotation::tell(Bytes size, double ns_per_tick) const noexcept {
  Told told;
  told.places = places(size);
  if (size == 0 || size > SlotTable::kLargestSpare) return told;
  const std::size_t mine = class_of(size);
  told.is_measured = classes_[mine].is_measured;
  told.is_short_of_memory = least_ < kMaxSlots && !is_possible(kChoices - 1, mine);  // the most
  for (std::size_t choice = 0; choice < kChoices; ++choice)
    told.ns_per_kib[choice] = classes_[mine].costs[choice] * ns_per_tick;
  return told;
}

}  // namespace gantry
