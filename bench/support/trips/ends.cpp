#include "ends.hpp"

#include <algorithm>
#include <chrono>

#include "../system/cpus.hpp"
#include "round_trips.hpp"

namespace gantry::bench {
namespace {

Result<void> serve(Responder& responder, std::uint64_t trips) {
  for (std::uint64_t i = 0; i < trips; ++i) {
    const auto sum = responder.receive();
    if (!sum) return Unexpected(sum.error());
    if (auto replied = responder.reply(*sum); !replied) return replied;
  }
  return {};
}

/// The same, noting when each was read.
Result<void> serve_stamped(Responder& responder, std::uint64_t trips, Stamps& stamps) {
  for (std::uint64_t i = 0; i < trips; ++i) {
    const auto sum = responder.receive();
    stamps.ns[i] =
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    if (!sum) return Unexpected(sum.error());
    if (auto replied = responder.reply(*sum); !replied) return replied;
  }
  return {};
}

Result<Answer> answer_all(Responder& responder, const Command& command, Stamps& stamps) {
  if (auto warm = serve(responder, command.warmups); !warm) return Unexpected(warm.error());
  const auto cpu_before = process_cpu_time();
  const auto served = command.stamped ? serve_stamped(responder, command.trips, stamps)
                                      : serve(responder, command.trips);
  if (!served) return Unexpected(served.error());
  Answer answer;
  answer.kind = Answer::Kind::measured;
  answer.cpu_ns = static_cast<double>((process_cpu_time() - cpu_before).count());
  return answer;
}

}  // namespace

void run_requester(Link& link, const OpenRequester& open, const Case& what) {
  const auto end = open();
  if (!end) {
    link.send(Answer::failure(to_string(end.error())));
    return;
  }
  RoundTripDriver driver(**end, what);
  obey_commands(
      link, [&](const Command& command) { return driver.measure(command); }, &driver.stamps());
}

void run_responder(Link& link, const OpenResponder& open) {
  const auto end = open();
  if (!end) {
    link.send(Answer::failure(to_string(end.error())));
    return;
  }
  Stamps stamps;
  obey_commands(
      link, [&](const Command& command) { return answer_all(**end, command, stamps); }, &stamps);
}

}  // namespace gantry::bench
