#include "schedule/choice/estimate.hpp"

#include <algorithm>

#include "schedule/cost/costs.hpp"

namespace gantry {
namespace {

constexpr double kBitsOfAByte = 8;

bool is_ring(const Schedule& schedule) noexcept {
  return schedule.pattern == SchedulePattern::ring;
}
bool is_serial(const Schedule& schedule) noexcept {
  return schedule.pattern == SchedulePattern::serial;
}
bool is_deep(const Schedule& schedule) noexcept {
  return schedule.shape == ScheduleShape::depth;
}
bool by_step(const Schedule& schedule) noexcept {
  return schedule.grain == ScheduleGrain::per_step;
}
bool starts_even(const Schedule& schedule) noexcept {
  return schedule.start == ScheduleStart::even;
}

}  // namespace

Estimator::Estimator(const OperatorSplit& split, const ScheduleCosts& costs) noexcept
    : costs_(costs),
      ranks_(split.op().ranks),
      block_(static_cast<double>(split.largest_block())),
      depth_(static_cast<double>(split.depth_of(split.op().ranks - 1).size)),
      moved_(static_cast<double>(split.moved_columns())),
      bytes_(split.op().type.bits / kBitsOfAByte),
      comes_in_(split.comes_in()),
      is_exchange_(split.op().kind == OverlapKind::all_to_all_gemm) {
  std::int64_t rows = 0;
  for (unsigned rank = 0; rank < split.op().ranks; ++rank)
    rows = std::max(rows, split.rows_at(rank));
  rows_ = static_cast<double>(rows);
  columns_ = static_cast<double>(split.columns_of(split.op().ranks - 1).size);
}

double Estimator::link_start_s() const noexcept {
  return costs_.link.start_ns / kNsPerS;
}

double Estimator::product(double m, double n, double k, double adding) const noexcept {
  const auto bytes = static_cast<Bytes>(bytes_);
  const double once = seconds_of_product(costs_.product, m, n, k, false, bytes);
  if (adding == 0) return once;
  return once + adding * (seconds_of_product(costs_.product, m, n, k, true, bytes) - once);
}

double Estimator::whole_product_s() const noexcept {
  return product(rows_, columns_, depth_, 0);
}

double Estimator::steps_of(const Schedule& schedule) const noexcept {
  const double size = is_deep(schedule) ? moved_ : block_;
  return std::max(1.0, std::min(static_cast<double>(schedule.chunks), size));
}

double Estimator::piece_s(const Schedule& schedule) const noexcept {
  return block_ * moved_ * bytes_ / steps_of(schedule) / costs_.link.bytes_per_s;
}

double Estimator::pieces_s(const Schedule& schedule, double blocks,
                           double together) const noexcept {
  if (blocks <= 0) return 0;
  const double steps = steps_of(schedule);
  const double rows = block_ * together;
  const double count = blocks / together * steps;
  if (!is_deep(schedule)) return count * product(rows / steps, columns_, depth_, 0);
  if (!comes_in_) return count * product(rows, columns_ / steps, depth_, 0);
  return count * product(rows, columns_, depth_ / steps, (steps - 1) / steps);
}

double Estimator::products_s(const Schedule& schedule) const noexcept {
  if (is_serial(schedule)) return whole_product_s();
  const double own = product(block_, columns_, depth_, 0);
  const double peers = ranks_ - 1;
  if (is_ring(schedule)) {
    if (by_step(schedule)) return ranks_ * own;
    return (starts_even(schedule) ? pieces_s(schedule, 1, 1) : own) + pieces_s(schedule, peers, 1);
  }
  if (!by_step(schedule))
    return (starts_even(schedule) ? pieces_s(schedule, 1, 1) : own) + pieces_s(schedule, peers, 1);
  if (starts_even(schedule)) return pieces_s(schedule, ranks_, ranks_);
  // Columns of the peers' rows are two products, above and below the own ones.
  return own + pieces_s(schedule, peers, is_deep(schedule) ? peers / 2 : peers);
}

double Estimator::copies_s(const Schedule& schedule) const noexcept {
  const double own = block_;
  const double peers = rows_ - own;
  const auto copy = [&](double elements, double count) {
    return count * costs_.copy.start_ns / kNsPerS + elements * bytes_ / costs_.copy.bytes_per_s;
  };
  double seconds = 0;
  const bool is_staged =
      schedule.pattern == SchedulePattern::at_once && !is_deep(schedule) && by_step(schedule);
  if (is_staged) {
    const double rows = starts_even(schedule) ? rows_ : peers;
    seconds += copy(rows * (comes_in_ ? columns_ : depth_), steps_of(schedule) * ranks_);
    if (starts_even(schedule)) seconds += copy(own * (comes_in_ ? depth_ : columns_), 1);
  }
  if (!comes_in_) {
    const double sums = (ranks_ - 1) * steps_of(schedule);
    seconds += sums * costs_.reduce.start_ns / kNsPerS +
               (ranks_ - 1) * block_ * columns_ * bytes_ / costs_.reduce.bytes_per_s;
  }
  if (is_exchange_ && is_serial(schedule)) seconds += copy(own * depth_, 1);
  return seconds;
}

double Estimator::transfer_s() const noexcept {
  return links_s({});
}

double Estimator::links_s(const Schedule& schedule) const noexcept {
  const double bytes = block_ * moved_ * bytes_;
  const double starts = steps_of(schedule) * link_start_s();
  const double peers = ranks_ - 1;
  const double link =
      std::max(bytes / costs_.link.bytes_per_s, steps_of(schedule) * cpu_of_piece_s(schedule));
  if (costs_.topology == Topology::mesh)
    return is_ring(schedule) ? peers * (starts + link) : starts + link;
  const double port = bytes / costs_.port_bytes_per_s;
  if (is_ring(schedule)) return peers * (starts + std::max(link, port));
  return starts + std::max(link, peers * port);
}

// Columns lie apart at both ends.
double Estimator::cpu_of_piece_s(const Schedule& schedule) const noexcept {
  const double steps = steps_of(schedule);
  const double rows = is_deep(schedule) && steps > 1 ? block_ : 0;
  return cpu_s_of_transfer(costs_, block_ * moved_ * bytes_ / steps, rows);
}

// Products and transfers of all ranks on CPUs that they share.
double Estimator::on_cpus(const Schedule& schedule, double products,
                          double seconds) const noexcept {
  if (costs_.cpus <= 0) return seconds;
  const double pieces = ranks_ * (ranks_ - 1) * steps_of(schedule);
  const double work = ranks_ * products + 2 * pieces * cpu_of_piece_s(schedule);
  return std::max(seconds, work / costs_.cpus);
}

double Estimator::seconds_of_schedule(const Schedule& schedule) const noexcept {
  if (ranks_ == 1 || block_ == 0) return whole_product_s();
  const double products = products_s(schedule);
  const double copies = copies_s(schedule);
  const double links = links_s(schedule);
  if (is_serial(schedule)) {
    const double share = costs_.cpus > 0 ? std::max(1.0, ranks_ / costs_.cpus) : 1;
    return on_cpus(schedule, products, products * share + copies + links);
  }
  const double beside = std::min(products, links) * (costs_.beside_transfers - 1);
  const double steps = steps_of(schedule);
  // What comes last is multiplied behind the last transfer, or leaves behind the last product.
  const double last = is_ring(schedule) ? (by_step(schedule) ? 1 : 1 / steps) / ranks_ : 1 / steps;
  const double tail = last * products * (ranks_ - 1) / ranks_;
  const bool waits_first =
      comes_in_ && starts_even(schedule) && by_step(schedule) && !is_ring(schedule);
  const double head = waits_first ? links / steps : comes_in_ ? 0 : links / steps / ranks_;
  return on_cpus(schedule, products,
                 std::max(products + copies + beside + head, links + tail + copies / steps));
}

double Estimator::decomposition(const Schedule& schedule) const noexcept {
  return products_s(schedule) / std::max(whole_product_s(), 1e-300);
}

}  // namespace gantry
