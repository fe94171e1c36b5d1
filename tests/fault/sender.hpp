#pragma once  // fault/sender.hpp: the producer's role, as victim, survivor or successor.

#include <deque>

#include "fault/part.hpp"

namespace gantry::fault {

/// One producer and the traffic of its scenario.
class Sender {
 public:
  Sender(const Part& part, std::string_view name = "frames");

  /// `count` messages from `first` on. A consumer that is gone is waited for, if one may be.
  void burst(std::uint64_t first, std::uint64_t count);
  void await_consumers(unsigned count);
  /// False: the last consumer was gone before it had everything.
  bool close();
  /// At an inbox: until everything was received, if need be by the next one.
  void close_at_last();

 private:
  struct Unsent {
    std::uint64_t id;
    Ticket ticket;
    std::vector<std::byte> payload;
  };
  struct Upstream;  // what forwarded messages come from

  void open_named(std::string_view name);
  void connect();
  void open_upstream();
  void send_one(std::uint64_t id);
  void send_at_last(std::uint64_t id);
  void send_unreadable(std::uint64_t id);
  [[nodiscard]] Result<void> send_by(std::uint64_t id, Deadline deadline);
  [[nodiscard]] Result<void> send_parts(std::uint64_t id, const SendOptions& options);
  [[nodiscard]] Result<void> send_forwarded(std::uint64_t id, const SendOptions& options);
  void await_oldest();
  [[nodiscard]] std::vector<std::byte> payload_of(std::uint64_t id) const;
  /// Whether the message went; when the consumer is gone another is waited for.
  bool judge(std::uint64_t id, const Result<void>& sent, std::uint64_t asked_ns);

  const Part& part_;
  std::optional<Producer> producer_;
  std::shared_ptr<Upstream> upstream_;
  std::deque<Unsent> unsent_;
};

/// The whole role.
void run_victim_producer(const Part& part);
void run_successor_producer(const Part& part);
void run_surviving_producer(const Part& part);

}  // namespace gantry::fault
