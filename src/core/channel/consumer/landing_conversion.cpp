#include "core/channel/consumer/landing_conversion.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace gantry {
namespace {

// More than any element or group of the source takes, twice.
constexpr Bytes kAddedAtOnce = 4096;

}  // namespace

// All that can be made of the message's bytes up to the end of these.
void LandingConversion::convert_of(ConstByteSpan bytes, Bytes from) {
  const Bytes enough = plan_.destination_from(from + bytes.size());
  if (enough <= made_) return;
  if (plan_.convert(destination_.subspan(made_, enough - made_), bytes, made_, from))
    made_ = enough;
}

// What is made needs no more of the bytes that are kept.
void LandingConversion::drop_used() {
  const bool is_over = made_ == plan_.destination_bytes();
  const Bytes needed = is_over ? taken_ : plan_.source_of({made_, 1}).from;
  const Bytes used = std::min(needed < kept_from_ ? 0 : needed - kept_from_, kept_.size());
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(used));
  kept_from_ += used;
}

void LandingConversion::take(ConstByteSpan piece) {
  GANTRY_DEBUG_ASSERT(made_ <= plan_.destination_bytes());
  GANTRY_DEBUG_ASSERT(kept_.empty() || kept_from_ + kept_.size() == taken_);
  const Bytes began = taken_;
  for (Bytes at = 0; !kept_.empty() && at < piece.size();) {
    const ConstByteSpan more = piece.subspan(at, std::min(kAddedAtOnce, piece.size() - at));
    kept_.insert(kept_.end(), more.begin(), more.end());
    at += more.size();
    taken_ = began + at;
    convert_of(kept_, kept_from_);
    drop_used();
    if (kept_from_ >= began) kept_.clear();  // the rest lies in the piece itself
  }
  taken_ = began + piece.size();
  if (!kept_.empty()) return;
  convert_of(piece, began);
  if (made_ == plan_.destination_bytes()) return;
  const Bytes needed = std::max(plan_.source_of({made_, 1}).from, began);
  if (needed >= taken_) return;
  const ConstByteSpan rest = piece.subspan(needed - began);
  kept_.assign(rest.begin(), rest.end());
  kept_from_ = needed;
}

}  // namespace gantry
