#include "calibration/calibration_bench.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/result.hpp"

namespace gantry {
namespace {

// bytes that are moved between two readings of the clock
constexpr Bytes kAtOnce = Bytes{8} << 20;
constexpr Bytes kReshapedAtOnce = Bytes{1} << 20;  // there are more kinds of them
constexpr Bytes kMostRepeats = 256;
constexpr Bytes kQueuedMoves = 16;

Bytes repeats_of(const CalibrationBench::Work& work) {
  const Bytes at_once = work.plan == nullptr ? kAtOnce : kReshapedAtOnce;
  return std::clamp<Bytes>(at_once / work.footprint(), 1, kMostRepeats);
}

Result<void> await(Lane& lane, Result<Ticket> ticket,
                   WaitStrategy waiting = WaitStrategy::automatic) {
  if (!ticket) return tl::unexpected(std::move(ticket).error());
  if (lane.wait(*ticket, Deadline::never(), waiting) == Outcome::done) return {};
  return fail(Code::system, "calibrating: a copy failed");
}

double per(std::uint64_t ns, Bytes count) {
  return std::max(static_cast<double>(ns) / static_cast<double>(count), 0.1);  // never zero
}

// Several sums, so that the reading waits for memory and not for the addition before.
std::uint64_t sum_of(ConstByteSpan bytes) noexcept {
  const auto* at = reinterpret_cast<const std::uint64_t*>(bytes.data());
  std::uint64_t sums[4] = {};
  for (Bytes i = 0; i + 4 <= bytes.size() / sizeof *at; i += 4)
    for (Bytes j = 0; j < 4; ++j) sums[j] += at[i + j];
  return std::accumulate(std::begin(sums), std::end(sums), std::uint64_t{0});
}

}  // namespace

Result<CalibrationBench> CalibrationBench::make(std::span<const std::shared_ptr<Engine>> engines,
                                                Bytes bytes) {
  CalibrationBench bench;
  const RegionOptions private_memory{.shareable = false};
  GANTRY_ASSIGN(bench.source_, Region::create(bytes, "gantry-calibration", private_memory));
  GANTRY_ASSIGN(bench.destination_, Region::create(bytes, "gantry-calibration", private_memory));
  GANTRY_TRY(bench.source_.touch(0, bytes));
  GANTRY_TRY(bench.destination_.touch(0, bytes));
  for (const auto& engine : engines) {
    auto lane = engine->open_lane();
    if (!lane && bench.subjects_.empty()) return tl::unexpected(std::move(lane).error());
    if (!lane) continue;  // an engine that cannot be used need not be known
    const auto kinds = engine->capabilities().kinds;
    bench.subjects_.push_back({std::string(engine->name()), std::move(*lane),
                               std::ranges::find(kinds, Move::Kind::reshape) != kinds.end()});
  }
  return bench;
}

Lane* CalibrationBench::lane_of(std::string_view engine) noexcept {
  const auto found = std::ranges::find(subjects_, engine, &Subject::name);
  return found == subjects_.end() ? nullptr : found->lane.get();
}

Move CalibrationBench::move_of(Bytes offset, const Work& work) const noexcept {
  const ByteSpan to{destination_.data() + offset, work.bytes};
  Move move =
      work.plan == nullptr
          ? Move::copy(to, {source_.data() + offset, work.bytes})
          : Move::reshape(to, {source_.data() + offset, work.plan->source_bytes()}, *work.plan);
  move.cache = work.cache;
  move.resident = true;
  return move;
}

Bytes CalibrationBench::next_offset(Bytes bytes) noexcept {
  if (cursor_ + bytes > this->bytes()) cursor_ = 0;
  constexpr Bytes kLine = 64;  // what follows begins at one
  return std::exchange(cursor_, cursor_ + (bytes + kLine - 1) / kLine * kLine);
}

Result<double> CalibrationBench::awaited(Lane& lane, const Work& work, WaitStrategy waiting,
                                         Memory memory) {
  const Bytes repeats = repeats_of(work);
  const std::uint64_t start = monotonic_ns();
  for (Bytes i = 0; i < repeats; ++i) {
    const Bytes offset = memory == Memory::other ? next_offset(work.footprint()) : 0;
    GANTRY_TRY(await(lane, lane.submit(move_of(offset, work), SubmitMode::synchronous), waiting));
  }
  return per(monotonic_ns() - start, repeats);
}

Result<CalibrationBench::Queued> CalibrationBench::queued(Lane& lane, const Work& work) {
  const Bytes moves = std::clamp<Bytes>(this->bytes() / work.footprint(), 1, kQueuedMoves);
  const std::uint64_t cpu = thread_cpu_ns();
  const std::uint64_t start = monotonic_ns();
  Result<Ticket> last = Ticket{};
  for (Bytes i = 0; i < moves && last; ++i)
    last = lane.submit(move_of(next_offset(work.footprint()), work), SubmitMode::queued);
  const std::uint64_t cpu_spent = thread_cpu_ns() - cpu;
  GANTRY_TRY(await(lane, std::move(last)));
  return Queued{per(monotonic_ns() - start, moves), per(cpu_spent, moves)};
}

Result<double> CalibrationBench::reading(Lane& lane, Bytes bytes, CacheUse cache) {
  GANTRY_TRY(await(lane, lane.submit(move_of(0, {bytes, cache}), SubmitMode::synchronous)));
  const std::uint64_t start = monotonic_ns();
  const volatile std::uint64_t sum = sum_of({destination_.data(), bytes});
  static_cast<void>(sum);
  return static_cast<double>(monotonic_ns() - start) / static_cast<double>(bytes);
}

double median_of(std::vector<double> values) noexcept {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace gantry
