#pragma once  // bench/support/trips/round_trips.hpp: the asking end's trips, one after another or
              // several at once.

#include "../process/link.hpp"
#include "own_work.hpp"
#include "subject.hpp"

namespace gantry::bench {

/// Makes and times trips with messages of its own, as many as may be in flight.
class RoundTripDriver {
 public:
  RoundTripDriver(Requester& requester, const Case& what);

  /// What the command asks for.
  [[nodiscard]] Result<Answer> measure(const Command& command);
  /// Of the last command, when it was to be stamped.
  [[nodiscard]] const Stamps& stamps() const noexcept { return stamps_; }

 private:
  struct Trip {
    std::int64_t began_ns = 0;
    double ns = 0;
    double send_ns = 0;
    double send_cpu_ns = 0;
    double prepare_ns = 0;
    double compute_speed = 0;
  };

  void renew(Payload& payload) const noexcept;
  Result<Trip> make_trip(std::int64_t& at);
  Result<void> make_trips(std::span<Trip> trips);
  Result<void> make_queued(std::uint64_t trips);
  Result<void> take_sums(const Payload& payload);
  Result<void> check(std::uint64_t sum, const Payload& payload) const;
  Result<std::uint64_t> compute_until_sum();
  Result<Trip> make_computing_trip(std::int64_t& at);
  Result<Answer> measure_queued(const Command& command);
  [[nodiscard]] double helper_cpu_ns() const;

  Requester& requester_;
  unsigned readers_;
  bool times_send_;
  bool keeps_payload_;
  bool reads_;
  bool computes_;
  std::chrono::microseconds pause_;
  OwnWork work_;
  std::int64_t last_trip_ns_ = 0;
  std::vector<Payload> payloads_;  // one of each that may be in flight
  Stamps stamps_;
};

}  // namespace gantry::bench
