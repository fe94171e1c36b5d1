#pragma once  // fault/post.hpp: an inbox and the producers that come to it.

#include <array>
#include <gantry/call.hpp>
#include <map>
#include <optional>

#include "core/base/os/fd.hpp"
#include "fault/part.hpp"

namespace gantry {
class EventLoop;
}

namespace gantry::fault {

/// One inbox, and what it received so far.
class Post {
 public:
  explicit Post(const Part& part, std::string_view name = "frames");
  Post(const Post&) = delete;
  Post& operator=(const Post&) = delete;

  /// The next message, or the next departure.
  void take();
  /// Takes what is there, without waiting.
  void take_all();
  /// The newest message of that sender (Part::sender).
  [[nodiscard]] std::uint64_t last(std::uint64_t sender) const { return of_.at(sender).last; }
  [[nodiscard]] bool has_second_burst(std::uint64_t sender) const {
    return of_.at(sender).second_burst == kBurst;
  }
  [[nodiscard]] bool is_empty() const { return inbox_->senders().empty(); }

 private:
  struct Received {
    std::uint64_t last = 0;
    std::uint64_t second_burst = 0;
  };

  [[nodiscard]] Result<Inbox::Delivery> receive();
  [[nodiscard]] Result<Inbox::Delivery> await();
  void accept(const Inbox::Delivery& delivery);
  void check_order(std::uint64_t sender, std::uint64_t id) const;
  void judge(const Departure& departure);

  const Part& part_;
  Fd departure_;  // rung by one, so that receiving comes back
  std::vector<Departure> departures_;
  EventLoop* loop_ = nullptr;
  std::optional<Inbox> inbox_;
  std::map<std::uint64_t, Received> of_;              // by Part::sender
  std::map<std::uint64_t, std::uint64_t> sender_of_;  // by Sender::id
  std::uint64_t asked_ns_ = 0;
};

// The inbox is the victim.
void run_victim_inbox(const Part& part);
void run_successor_inbox(const Part& part);
void run_posting_survivor(const Part& part);

// One of two producers is.
void run_surviving_inbox(const Part& part);
void run_victim_at_inbox(const Part& part);
void run_other_at_inbox(const Part& part);
void run_successor_at_inbox(const Part& part);

}  // namespace gantry::fault
