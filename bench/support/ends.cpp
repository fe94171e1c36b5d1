#include "ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "cpus.hpp"
#include "statistics.hpp"

namespace gantry::bench {
namespace {

using Clock = std::chrono::steady_clock;

double count(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count());
}

/// What one trip took, and the preparing before it.
struct Trip {
  double ns = 0;
  double prepare_ns = 0;
};

std::vector<double> column(std::span<const Trip> trips, double Trip::* figure) {
  std::vector<double> values;
  for (const Trip& trip : trips) values.push_back(trip.*figure);
  return values;
}

Result<void> check(std::uint64_t got, std::uint64_t expected) {
  if (got == expected) return {};
  return Unexpected({Code::peer_misbehaved,
                     fmt::format("wrong checksum: {:#018x} came back for {:#018x}", got, expected),
                     ""});
}

/// CPU time of preparing, which is not charged. Where that is short, asking for CPU time would cost
/// more: then it is the time since the last trip, and a median is not moved by the few that were
/// preempted. Long preparing often is.
class Preparing {
 public:
  Preparing(Bytes bytes, Clock::time_point from) : is_long_(bytes >= kLong), from_(from) {
    if (is_long_) cpu_ = process_cpu_time();
  }
  void end() {
    if (is_long_) cpu_ = process_cpu_time() - cpu_;
  }
  [[nodiscard]] double ns(Clock::time_point ended) const {
    return count(is_long_ ? cpu_ : ended - from_);
  }

 private:
  static constexpr Bytes kLong = 64 << 10;
  bool is_long_;
  Clock::time_point from_;
  std::chrono::nanoseconds cpu_{};
};

/// One trip; `at` is when the last one ended, and then when this one did.
Result<Trip> make_trip(Requester& requester, Payload& payload, Clock::time_point& at) {
  Preparing preparing(payload.bytes().size(), at);
  payload.change();
  if (auto prepared = requester.prepare(payload); !prepared) return Unexpected(prepared.error());
  preparing.end();
  const auto began = Clock::now();
  const auto sum = requester.round_trip(payload);
  at = Clock::now();
  if (!sum) return Unexpected(sum.error());
  if (auto right = check(*sum, payload.checksum()); !right) return Unexpected(right.error());
  return Trip{count(at - began), preparing.ns(began)};
}

Result<void> make_trips(Requester& requester, Payload& payload, std::span<Trip> trips) {
  auto at = Clock::now();
  for (Trip& trip : trips) {
    const auto made = make_trip(requester, payload, at);
    if (!made) return Unexpected(made.error());
    trip = *made;
  }
  return {};
}

Result<Answer> measure(Requester& requester, Payload& payload, const Command& command) {
  std::vector<Trip> trips(std::max(command.warmups, command.trips));  // there before the first
  const auto warmups = std::span(trips).first(command.warmups);
  if (auto warm = make_trips(requester, payload, warmups); !warm) return Unexpected(warm.error());
  trips.resize(command.trips);
  const auto cpu_before = process_cpu_time();
  if (auto made = make_trips(requester, payload, trips); !made) return Unexpected(made.error());
  Answer answer;
  answer.kind = Answer::Kind::measured;
  answer.cpu_ns = count(process_cpu_time() - cpu_before);
  auto times = column(trips, &Trip::ns);
  answer.p50_ns = median(times);
  answer.p99_ns = percentile(times, 0.99);
  times = column(trips, &Trip::prepare_ns);
  answer.prepare_ns = median(times);
  return answer;
}

Result<void> serve(Responder& responder, std::uint64_t trips) {
  for (std::uint64_t i = 0; i < trips; ++i) {
    if (auto served = responder.serve(); !served) return Unexpected(served.error());
  }
  return {};
}

Result<Answer> answer_all(Responder& responder, const Command& command) {
  if (auto warm = serve(responder, command.warmups); !warm) return Unexpected(warm.error());
  const auto cpu_before = process_cpu_time();
  if (auto served = serve(responder, command.trips); !served) return Unexpected(served.error());
  Answer answer;
  answer.kind = Answer::Kind::measured;
  answer.cpu_ns = count(process_cpu_time() - cpu_before);
  return answer;
}

/// Obeys until the link ends or something fails, which is reported.
template <class Obey>
void command_loop(Link& link, Obey obey) {
  link.send(Answer{});
  while (const auto command = link.receive<Command>()) {
    const Result<Answer> answer = obey(*command);
    link.send(answer ? *answer : Answer::failure(to_string(answer.error())));
    if (!answer) return;
  }
}

}  // namespace

void run_requester(Link& link, Subject& subject, Bytes bytes) {
  Payload payload(bytes);
  const auto end = subject.open_requester();
  if (!end) {
    link.send(Answer::failure(to_string(end.error())));
    return;
  }
  command_loop(link, [&](const Command& command) { return measure(**end, payload, command); });
}

void run_responder(Link& link, Subject& subject) {
  const auto end = subject.open_responder();
  if (!end) {
    link.send(Answer::failure(to_string(end.error())));
    return;
  }
  command_loop(link, [&](const Command& command) { return answer_all(**end, command); });
}

}  // namespace gantry::bench
