#pragma once  // oracle/receiving.hpp: the receiving end: what it was handed, and what it holds.

#include <deque>
#include <optional>

#include "oracle/part.hpp"

namespace gantry::oracle {

/// A consumer or an inbox that joins, takes, holds, leaves and comes again. Each byte is checked
/// when it is delivered, and again just before its message is released.
class Receiver {
 public:
  explicit Receiver(Part& part) : part_(part) {}

  /// Joins, or joins again. False: nobody sends any more.
  bool join();
  /// Takes one message, or learns that there is none. False: this session has ended.
  bool take();
  void leave();
  /// Checks and releases what is held beyond `most`.
  void release_beyond(std::size_t most);
  /// The next message whole, checked and logged; for relays. Nothing: none, see `ended`.
  std::optional<Message> receive();
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }
  [[nodiscard]] bool is_idle() const noexcept { return idle_; }

 private:
  struct Held {
    Message message;
    Id id;
  };

  Result<void> try_join();
  void begin_log();
  std::chrono::nanoseconds draw_time();
  Result<Message> receive_from_either(Deadline deadline);
  void take_whole();
  void take_batch();
  void take_early();
  void take_copied();
  void take_looked();
  void work_through(Incoming& incoming, Id id);
  bool read_on(Incoming& incoming, Id id, Bytes& at);
  void hold(Message message, Id id);
  Id note(const MessageInfo& info, bool whole);
  void note_whole();
  void fail_call(const char* what, const Error& error);
  void end(End how);

  Part& part_;
  std::optional<Consumer> consumer_;
  std::optional<Inbox> inbox_;
  std::deque<Held> held_;
  std::vector<std::byte> buffer_;
  std::string misbehaved_;  // a sender, as an inbox was told
  Log* log_ = nullptr;
  bool ended_ = false;
  bool idle_ = false;        // the last call found nothing
  bool waiting_ = false;     // a call timed out since the last message
  bool has_copied_ = false;  // receive_into() did
  bool is_refused_ = false;  // another call was refused therefore
};

}  // namespace gantry::oracle
