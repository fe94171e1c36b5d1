#include "round_trips.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "../report/statistics.hpp"
#include "../system/cpus.hpp"

namespace gantry::bench {

// Callgrind knows it by its name: what a sender executes to hand a message over.
extern "C" {
[[gnu::noinline, gnu::used]] bool gantry_bench_counted_send(Requester* requester,
                                                            const Payload* payload,
                                                            Result<void>* sent) {
  *sent = requester->send(*payload);
  return sent->has_value();
}
}

namespace {

/// send(), as whatever counts instructions sees it.
Result<void> hand_over(Requester& requester, const Payload& payload) {
  Result<void> sent;
  gantry_bench_counted_send(&requester, &payload, &sent);
  return sent;
}

double count(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count());
}

/// Of the clock that all processes share.
std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double between(std::int64_t began_ns, std::int64_t ended_ns) {
  return static_cast<double>(ended_ns - began_ns);
}

/// CPU time of preparing, which is not charged. Where that is short, asking for CPU time would cost
/// more: then it is the time since the last trip, and a median is not moved by the few that were
/// preempted. Long preparing often is.
class Preparing {
 public:
  Preparing(Bytes bytes, std::int64_t from_ns) : is_long_(bytes >= kLong), from_ns_(from_ns) {
    if (is_long_) cpu_ = process_cpu_time();
  }
  void end() {
    if (is_long_) cpu_ = process_cpu_time() - cpu_;
  }
  [[nodiscard]] double ns(std::int64_t ended_ns) const {
    return is_long_ ? count(cpu_) : between(from_ns_, ended_ns);
  }

 private:
  static constexpr Bytes kLong = 64 << 10;
  bool is_long_;
  std::int64_t from_ns_;
  std::chrono::nanoseconds cpu_{};
};

template <class Trip>
std::vector<double> column(std::span<const Trip> trips, double Trip::* figure) {
  std::vector<double> values;
  for (const Trip& trip : trips) values.push_back(trip.*figure);
  return values;
}

}  // namespace

RoundTripDriver::RoundTripDriver(Requester& requester, const Case& what)
    : requester_(requester),
      readers_(what.readers),
      times_send_(what.times_send),
      keeps_payload_(what.keeps_payload),
      reads_(what.reads),
      computes_(what.computes),
      pause_(what.pause) {
  for (unsigned i = 0; i < what.in_flight; ++i) payloads_.emplace_back(what.bytes);
}

void RoundTripDriver::renew(Payload& payload) const noexcept {
  if (!reads_) return;
  keeps_payload_ ? payload.change() : payload.rewrite();
}

Result<void> RoundTripDriver::check(std::uint64_t sum, const Payload& payload) const {
  const std::uint64_t expected = reads_ ? requester_.expected(payload) : payload.bytes().size();
  if (sum == expected) return {};
  return Unexpected({Code::peer_misbehaved,
                     fmt::format("wrong checksum: {:#018x} came back for {:#018x}", sum, expected),
                     ""});
}

/// One sum of each reader.
Result<void> RoundTripDriver::take_sums(const Payload& payload) {
  for (unsigned reader = 0; reader < readers_; ++reader) {
    const auto sum = requester_.receive();
    if (!sum) return Unexpected(sum.error());
    if (auto right = check(*sum, payload); !right) return right;
  }
  return {};
}

/// One trip; `at` is when the last one ended, and then when this one did.
Result<RoundTripDriver::Trip> RoundTripDriver::make_trip(std::int64_t& at) {
  Payload& payload = payloads_.front();
  Preparing preparing(payload.bytes().size(), at);
  if (pause_.count() > 0) std::this_thread::sleep_for(pause_);
  renew(payload);
  if (auto prepared = requester_.prepare(payload); !prepared) return Unexpected(prepared.error());
  preparing.end();
  const double cpu_before = times_send_ ? count(thread_cpu_time()) : 0;
  const auto began = now_ns();
  if (auto sent = hand_over(requester_, payload); !sent) return Unexpected(sent.error());
  const auto has_sent = times_send_ ? now_ns() : began;
  const double cpu = times_send_ ? count(thread_cpu_time()) - cpu_before : 0;
  if (auto taken = take_sums(payload); !taken) return Unexpected(taken.error());
  at = now_ns();
  return Trip{began, between(began, at), between(began, has_sent), cpu, preparing.ns(began), 0};
}

Result<std::uint64_t> RoundTripDriver::compute_until_sum() {
  std::uint64_t pieces = 0;
  for (;;) {
    work_.do_piece();
    ++pieces;
    const auto sum = requester_.look();
    if (!sum) return Unexpected(sum.error());
    if (!*sum) continue;
    if (auto right = check(**sum, payloads_.front()); !right) return Unexpected(right.error());
    return pieces;
  }
}

/// First as much work as a trip gives time for, with nothing under way; then a trip beside which
/// the same work goes on. Sending and looking for the answer are part of what disturbs it.
Result<RoundTripDriver::Trip> RoundTripDriver::make_computing_trip(std::int64_t& at) {
  Payload& payload = payloads_.front();
  Preparing preparing(payload.bytes().size(), at);
  renew(payload);
  const auto quiet = now_ns();
  std::uint64_t alone = 0;
  for (; alone == 0 || now_ns() - quiet < last_trip_ns_; ++alone) work_.do_piece();
  const double alone_ns = between(quiet, now_ns());
  preparing.end();
  const auto began = now_ns();
  if (auto sent = hand_over(requester_, payload); !sent) return Unexpected(sent.error());
  const auto has_sent = now_ns();
  const auto pieces = compute_until_sum();
  if (!pieces) return Unexpected(pieces.error());
  at = now_ns();
  last_trip_ns_ = at - began;
  const double speed =
      static_cast<double>(*pieces) / between(began, at) * alone_ns / static_cast<double>(alone);
  return Trip{began, between(began, at), between(began, has_sent), 0, preparing.ns(began), speed};
}

Result<void> RoundTripDriver::make_trips(std::span<Trip> trips) {
  auto at = now_ns();
  for (Trip& trip : trips) {
    const auto made = computes_ ? make_computing_trip(at) : make_trip(at);
    if (!made) return Unexpected(made.error());
    trip = *made;
  }
  return {};
}

/// As many unanswered at once as there are payloads.
Result<void> RoundTripDriver::make_queued(std::uint64_t trips) {
  const std::uint64_t window = payloads_.size();
  for (std::uint64_t i = 0; i < trips; ++i) {
    Payload& payload = payloads_[i % window];
    if (i >= window)
      if (auto taken = take_sums(payload); !taken) return taken;
    payload.change();  // no more: what is timed here is the way, not the producing
    if (auto sent = hand_over(requester_, payload); !sent) return sent;
  }
  for (std::uint64_t i = trips - std::min(trips, window); i < trips; ++i)
    if (auto taken = take_sums(payloads_[i % window]); !taken) return taken;
  return {};
}

double RoundTripDriver::helper_cpu_ns() const {
  double ns = 0;
  for (const int helper : requester_.helpers()) ns += count(process_cpu_time(helper));
  return ns;
}

Result<Answer> RoundTripDriver::measure_queued(const Command& command) {
  if (auto warm = make_queued(command.warmups); !warm) return Unexpected(warm.error());
  const double cpu_before = count(process_cpu_time()) + helper_cpu_ns();
  const auto began = now_ns();
  if (auto made = make_queued(command.trips); !made) return Unexpected(made.error());
  const double trip_ns = between(began, now_ns()) / static_cast<double>(command.trips);
  Answer answer;
  answer.kind = Answer::Kind::measured;
  answer.cpu_ns = count(process_cpu_time()) + helper_cpu_ns() - cpu_before;
  answer.p50_ns = answer.p99_ns = answer.p999_ns = trip_ns;
  return answer;
}

Result<Answer> RoundTripDriver::measure(const Command& command) {
  if (payloads_.size() > 1) return measure_queued(command);
  std::vector<Trip> trips(std::max(command.warmups, command.trips));  // there before the first
  const auto warmups = std::span(trips).first(command.warmups);
  if (auto warm = make_trips(warmups); !warm) return Unexpected(warm.error());
  trips.resize(command.trips);
  const double cpu_before = count(process_cpu_time()) + helper_cpu_ns();
  if (auto made = make_trips(trips); !made) return Unexpected(made.error());
  Answer answer;
  answer.kind = Answer::Kind::measured;
  answer.cpu_ns = count(process_cpu_time()) + helper_cpu_ns() - cpu_before;
  auto times = column(std::span<const Trip>(trips), &Trip::ns);
  answer.p50_ns = median(times);
  answer.p99_ns = percentile(times, 0.99);
  answer.p999_ns = percentile(times, 0.999);
  times = column(std::span<const Trip>(trips), &Trip::send_ns);
  answer.send.p50_ns = median(times);
  answer.send.p99_ns = percentile(times, 0.99);
  times = column(std::span<const Trip>(trips), &Trip::send_cpu_ns);
  answer.send.cpu_p50_ns = median(times);
  times = column(std::span<const Trip>(trips), &Trip::prepare_ns);
  answer.prepare_ns = median(times);
  times = column(std::span<const Trip>(trips), &Trip::compute_speed);
  answer.compute_speed = median(times);
  for (std::size_t i = 0; command.stamped && i < trips.size(); ++i)
    stamps_.ns[i] = trips[i].began_ns;
  return answer;
}

}  // namespace gantry::bench
