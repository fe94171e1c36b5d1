#include "remote/offered_places.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/result.hpp"

namespace gantry {

Result<void> OfferedPlaces::offer(Link& link, Pool pool, Bytes bytes, RemoteSpeech& speech) {
  if (bytes > kMostBytes) return {};
  const auto is_free = [](const auto& entry) { return !entry.second.is_begun; };
  std::erase_if(places_, [&](const auto& entry) {
    return is_free(entry) && entry.second.block.bytes().size() < bytes;
  });
  for (auto free = std::ranges::count_if(places_, is_free); free < kMost; ++free) {
    const PoolReport report = pool.report();
    if (report.live_bytes + bytes > report.budget_bytes / 2) return {};
    auto block = pool.allocate(bytes);
    if (!block) return {};
    GANTRY_ASSIGN(Export exported, link.export_memory(block->bytes(), RemoteAccess::write));
    speech.say(say_place({++last_, exported.remote()}));
    places_.emplace(last_, Place{*std::move(block), std::move(exported)});
  }
  return {};
}

bool OfferedPlaces::withdraw_free() noexcept {
  return std::erase_if(places_, [](const auto& entry) { return !entry.second.is_begun; }) != 0;
}

bool OfferedPlaces::begin(std::uint64_t place, Bytes bytes) noexcept {
  const auto found = places_.find(place);
  if (found == places_.end() || found->second.is_begun ||
      bytes > found->second.block.bytes().size())
    return false;
  return found->second.is_begun = true;
}

Result<bool> OfferedPlaces::hear(Link& link) {
  bool has_heard = false;
  while (!places_.empty()) {
    const auto place = link.receive_signal(Deadline::now());
    if (!place && place.error().code == Code::timed_out) return has_heard;
    if (!place) return tl::unexpected(place.error());
    has_heard = true;
    if (*place == 0 || *place > last_)
      return fail(Code::peer_misbehaved, "it put something where nothing was offered");
    if (const auto found = places_.find(*place); found != places_.end())
      found->second.has_landed = true;
  }
  return has_heard;
}

bool OfferedPlaces::has_landed(std::uint64_t place) const noexcept {
  const auto found = places_.find(place);
  return found != places_.end() && found->second.has_landed;
}

Block OfferedPlaces::take(std::uint64_t place) {
  const auto found = places_.find(place);
  GANTRY_ASSERT(found != places_.end());
  found->second.exported.withdraw();  // I1
  Block block = std::move(found->second.block);
  places_.erase(found);
  return block;
}

}  // namespace gantry
