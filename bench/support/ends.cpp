#include "ends.hpp"

#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "cpus.hpp"
#include "statistics.hpp"

namespace gantry::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ns(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count());
}

/// Readings of the trips of one command. Its memory is there before the first.
struct Readings {
  explicit Readings(std::uint64_t trips) : trip_ns(trips), prepare_ns(trips) {}
  std::vector<double> trip_ns;
  std::vector<double> prepare_ns;
};

Result<void> check(std::uint64_t got, std::uint64_t expected) {
  if (got == expected) return {};
  return Unexpected({Code::peer_misbehaved,
                     fmt::format("wrong checksum: {:#018x} came back for {:#018x}", got, expected),
                     ""});
}

/// One trip that begins at `from`; returns when it ended. What lies between the end of one trip
/// and the start of the next counts as preparing.
Result<Clock::time_point> trip(Requester& requester, Payload& payload, Clock::time_point from,
                               double& trip_ns, double& prepare_ns) {
  payload.change();
  if (auto prepared = requester.prepare(payload); !prepared) return Unexpected(prepared.error());
  const auto began = Clock::now();
  const auto sum = requester.round_trip(payload);
  const auto ended = Clock::now();
  if (!sum) return Unexpected(sum.error());
  if (auto right = check(*sum, payload.checksum()); !right) return Unexpected(right.error());
  trip_ns = ns(ended - began);
  prepare_ns = ns(began - from);
  return ended;
}

Result<void> warm_up(Requester& requester, Payload& payload, std::uint64_t trips) {
  double ignored = 0;
  for (std::uint64_t i = 0; i < trips; ++i) {
    const auto ended = trip(requester, payload, Clock::now(), ignored, ignored);
    if (!ended) return Unexpected(ended.error());
  }
  return {};
}

Result<Answer> measure(Requester& requester, Payload& payload, const Command& command) {
  Readings readings(command.trips);
  if (auto warm = warm_up(requester, payload, command.warmups); !warm) {
    return Unexpected(warm.error());
  }
  const auto cpu_before = process_cpu_time();
  auto at = Clock::now();
  for (std::uint64_t i = 0; i < command.trips; ++i) {
    const auto ended = trip(requester, payload, at, readings.trip_ns[i], readings.prepare_ns[i]);
    if (!ended) return Unexpected(ended.error());
    at = *ended;
  }
  Answer answer;
  answer.kind = Answer::Kind::measured;
  answer.cpu_ns = ns(process_cpu_time() - cpu_before);
  answer.p50_ns = median(readings.trip_ns);
  answer.p99_ns = percentile(readings.trip_ns, 0.99);
  answer.prepare_ns = median(readings.prepare_ns);
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
  answer.cpu_ns = ns(process_cpu_time() - cpu_before);
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
