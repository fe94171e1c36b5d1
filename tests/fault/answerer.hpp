#pragma once  // fault/answerer.hpp: the server's role, as victim, survivor or successor.

#include <gantry/call.hpp>
#include <map>
#include <optional>
#include <set>

#include "fault/part.hpp"

namespace gantry::fault {

/// One server, and what it was asked so far.
class Answerer {
 public:
  explicit Answerer(const Part& part, std::string_view name = "service");
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  /// Waits for a request and serves it.
  void serve_next();
  /// Serves what is there. False: nothing is.
  bool serve_one();
  /// Readable when serve_one() may have something to do.
  [[nodiscard]] int descriptor();
  /// The newest request of that sender (Part::sender) that was answered.
  [[nodiscard]] std::uint64_t answered(std::uint64_t sender) const {
    const auto found = answered_.find(sender);
    return found == answered_.end() ? 0 : found->second;
  }
  [[nodiscard]] bool is_empty() const { return server_->report().clients == 0; }

  /// The victim's client is dead: a request of it that is held is to become cancelled.
  void drop_held();

 private:
  void serve(Request request);
  void answer(Request& request);
  [[nodiscard]] Result<void> reply(Request& request, std::uint64_t number);
  [[nodiscard]] bool is_held_back(std::uint64_t sender, std::uint64_t id) const;

  const Part& part_;
  std::optional<Server> server_;
  std::optional<Request> held_;
  std::set<std::uint64_t> asked_;                    // numbers
  std::map<std::uint64_t, std::uint64_t> answered_;  // by sender
};

// The server is the victim.
void run_victim_server(const Part& part);
void run_successor_server(const Part& part);

// One of two clients is.
void run_surviving_server(const Part& part);

}  // namespace gantry::fault
