#pragma once  // fault/caller.hpp: the client's role, as victim, survivor or successor.

#include <gantry/call.hpp>
#include <optional>
#include <vector>

#include "fault/part.hpp"

namespace gantry::fault {

/// One client and its calls, several at a time.
class Caller {
 public:
  enum class Server { may_die, lives };
  Caller(const Part& part, Server server);

  /// Each call ends, and as it must. A server that is gone is replaced by its successor.
  void burst(std::uint64_t first, std::uint64_t count);

 private:
  struct Call {
    std::uint64_t id;
    PendingReply pending;
    std::optional<Result<Message>> outcome;
  };

  void connect();
  void begin(std::uint64_t id);
  void settle_all();
  void await_all();
  [[nodiscard]] Result<Message> settle(PendingReply& pending) const;
  void judge(std::uint64_t id, const Result<Message>& outcome);
  void check_answer(std::uint64_t id, const Message& answer) const;
  /// The server is gone, and may be.
  [[nodiscard]] bool is_loss(const Error& error);

  const Part& part_;
  Server server_;
  std::optional<Client> client_;
  std::vector<Call> calls_;
  std::uint64_t asked_ns_ = 0;
  bool lost_ = false;
};

// The server is the victim: the survivor, and another client beside it.
void run_calling_survivor(const Part& part);

// One of two clients is.
void run_victim_client(const Part& part);
void run_other_client(const Part& part);
void run_successor_client(const Part& part);

}  // namespace gantry::fault
