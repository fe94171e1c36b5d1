#pragma once  // fault/receiver.hpp: the consumer's role, as victim, survivor or successor.

#include "fault/part.hpp"

namespace gantry::fault {

/// One consumer, and what it received so far.
class Receiver {
 public:
  explicit Receiver(const Part& part);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// Until the stream ends or its producer is gone: `closed` or `peer_gone`.
  Code drain();
  void rejoin();
  [[nodiscard]] std::uint64_t last() const noexcept { return last_; }
  /// What came of the second burst.
  [[nodiscard]] std::uint64_t second_burst() const noexcept { return second_burst_; }

 private:
  void join();
  /// The next message's number; 0 for one that was given up half-way.
  [[nodiscard]] Result<std::uint64_t> take();
  [[nodiscard]] Result<std::uint64_t> take_early();
  [[nodiscard]] Result<std::uint64_t> take_copied();
  [[nodiscard]] Result<std::uint64_t> take_looked();
  void accept(std::uint64_t id);
  void report();

  const Part& part_;
  Message held_;  // of a scenario that outlives
  std::optional<Consumer> consumer_;
  std::vector<std::byte> buffer_;
  std::uint64_t last_ = 0;
  std::uint64_t second_burst_ = 0;
};

void run_victim_consumer(const Part& part);
void run_successor_consumer(const Part& part);
void run_surviving_consumer(const Part& part);  ///< The producer is the victim.
void run_other_consumer(const Part& part);      ///< Another consumer is.

}  // namespace gantry::fault
