#include "image/snapshot/dead_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>

#include "base/fault_answers.hpp"
#include "image/snapshot/page_map.hpp"

namespace gantry::snapshot {
namespace {

constexpr std::string_view kBefore = "gantry: snapshot: page ";

/// Read by the handler of a signal, so it has no memory of its own.
struct Place {
  std::atomic<bool> is_taken{false};
  std::atomic<std::uintptr_t> from{0};  // 0: there is nothing yet. [P] What follows was written
  Bytes bytes = 0;
  int signal = 0;
  std::array<char, 1024> text{};
  std::size_t text_bytes = 0;
};
std::array<Place, DeadMemory::kMost> places;

void append(Place& place, std::string_view text) noexcept {
  const std::size_t some = std::min(text.size(), place.text.size() - place.text_bytes);
  std::copy_n(text.begin(), some, place.text.begin() + place.text_bytes);
  place.text_bytes += some;
}

void say(const Place& place, std::uint64_t page) noexcept {
  std::array<char, kBefore.size() + 20 + sizeof place.text + 1> line{};
  char* at = std::ranges::copy(kBefore, line.data()).out;
  at = std::to_chars(at, at + 20, page).ptr;
  at = std::copy_n(place.text.begin(), place.text_bytes, at);
  *at++ = '\n';
  static_cast<void>(
      !::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(at - line.data())));
}

void say_why(int signal, const siginfo_t* info) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Place& place : places) {
    const std::uintptr_t from = place.from.load(std::memory_order_acquire);  // [P]
    if (from == 0 || address < from || address - from >= place.bytes || signal != place.signal)
      continue;
    return say(place, (address - from) / kPageBytes);
  }
}

}  // namespace

void DeadMemory::tell(ByteSpan memory, int signal, const Error& why) noexcept {
  for (place_ = 0; place_ < kMost; ++place_)
    if (!places[place_].is_taken.exchange(true, std::memory_order_acquire)) break;  // [T]
  if (place_ == kMost) return;
  Place& place = places[place_];
  place.bytes = memory.size();
  place.signal = signal;
  place.text_bytes = 0;
  append(place, " can never be there: ");
  append(place, why.message);
  if (!why.hint.empty()) append(place, "; ");
  append(place, why.hint);
  place.from.store(reinterpret_cast<std::uintptr_t>(memory.data()),
                   std::memory_order_release);  // [P]
  tell_of_faults(say_why);
}

DeadMemory::~DeadMemory() {
  if (place_ == kMost) return;
  places[place_].from.store(0, std::memory_order_relaxed);  // no handler runs: the memory is ours
  places[place_].is_taken.store(false, std::memory_order_release);  // [T]
}

}  // namespace gantry::snapshot
