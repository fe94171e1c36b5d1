#include "collective_data.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../support/system/cpus.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kKindBits = 4;
constexpr unsigned kWayBits = 8;

// Neighbours, chunks and ranks differ.
float value_of(unsigned rank, std::size_t at, std::uint64_t trip) noexcept {
  const std::uint32_t mix =
      (static_cast<std::uint32_t>(at) + static_cast<std::uint32_t>(trip) * 0x61c9u) * 0x9e3779b1u;
  return static_cast<float>(static_cast<std::int32_t>(((mix >> 24) + rank * 5) & 15)) - 8;
}

/// The wanted element at `at` of what compare_tensor() looks at.
template <CollectiveKind kKind>
float wanted_at(const RankView& view, std::size_t at, std::uint64_t trip) noexcept {
  const std::size_t piece = view.piece();
  if constexpr (kKind == CollectiveKind::broadcast) return value_of(0, at, trip);
  if constexpr (kKind == CollectiveKind::all_gather)
    return value_of(static_cast<unsigned>(at / piece), at, trip);
  if constexpr (kKind == CollectiveKind::all_to_all)
    return value_of(static_cast<unsigned>(at / piece), view.rank * piece + at % piece, trip);
  if constexpr (kKind == CollectiveKind::reduce_scatter) at += view.rank * piece;
  float sum = 0;
  for (unsigned q = 0; q < view.ranks; ++q) sum += value_of(q, at, trip);
  return sum;
}

template <CollectiveKind kKind>
Result<void> compare(const RankView& view, std::uint64_t trip, std::span<const float> tensor) {
  for (std::size_t at = 0; at < tensor.size(); ++at)
    if (tensor[at] != wanted_at<kKind>(view, at, trip))
      return Unexpected(
          {Code::system,
           fmt::format("{}: wrong result: element {} is {} and should be {}", to_string(kKind), at,
                       tensor[at], wanted_at<kKind>(view, at, trip)),
           ""});
  return {};
}

}  // namespace

void fill_tensor(const RankView& view, std::uint64_t trip, std::span<float> tensor) {
  for (std::size_t at = 0; at < tensor.size(); ++at) tensor[at] = value_of(view.rank, at, trip);
}

Result<void> compare_tensor(const RankView& view, std::uint64_t trip,
                            std::span<const float> tensor) {
  switch (view.kind) {
    case CollectiveKind::all_gather:
      return compare<CollectiveKind::all_gather>(view, trip, tensor);
    case CollectiveKind::reduce_scatter:
      return compare<CollectiveKind::reduce_scatter>(view, trip, tensor);
    case CollectiveKind::all_reduce:
      return compare<CollectiveKind::all_reduce>(view, trip, tensor);
    case CollectiveKind::all_to_all:
      return compare<CollectiveKind::all_to_all>(view, trip, tensor);
    case CollectiveKind::broadcast:
      break;
  }
  return compare<CollectiveKind::broadcast>(view, trip, tensor);
}

Command command_of(CollectiveKind kind, Bytes bytes, std::uint64_t trips, std::uint64_t way) {
  return {.warmups = (std::uint64_t{bytes} << (kKindBits + kWayBits)) | (way << kKindBits) |
                     static_cast<std::uint64_t>(kind),
          .trips = trips};
}

Commanded commanded(const Command& command) noexcept {
  return {static_cast<CollectiveKind>(command.warmups & ((1u << kKindBits) - 1)),
          command.warmups >> (kKindBits + kWayBits),
          (command.warmups >> kKindBits) & ((1u << kWayBits) - 1)};
}

Result<Answer> make_trips(const Trips& trips, std::uint64_t count) {
  std::vector<double> times;
  std::chrono::nanoseconds cpu{};
  for (std::uint64_t trip = 0; trip <= count; ++trip) {
    fill_tensor(trips.view, trip, trips.tensor);
    const auto before = process_cpu_time();
    const auto time = trips.trip();
    if (!time) return Unexpected(time.error());
    if (trip > 0) cpu += process_cpu_time() - before;
    if (trip > 0) times.push_back(*time);
    if (auto right = compare_tensor(trips.view, trip, trips.result); !right)
      return Unexpected(right.error());
  }
  std::ranges::sort(times);
  Answer answer;
  answer.kind = Answer::Kind::measured;
  answer.p50_ns = times[times.size() / 2];
  answer.cpu_ns = static_cast<double>(cpu.count()) / static_cast<double>(count);
  return answer;
}

}  // namespace gantry::bench
