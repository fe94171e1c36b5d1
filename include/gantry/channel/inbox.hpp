#pragma once  // gantry/channel/inbox.hpp: many producers, one consumer that has the name.

#include <functional>
#include <gantry/channel.hpp>

namespace gantry {

/// A producer as its inbox knows it: the kernel's word, taken when it connected.
struct Sender {
  std::uint64_t id = 0;  ///< Within this inbox, from 1; never used again.
  int pid = 0;           ///< 0: it lives in another PID namespace.
  unsigned uid = 0;
};

/// A producer that is no more. `closed`: it ended its stream and all of it was received;
/// `peer_gone`: it died or left before; `peer_misbehaved`: it was hung up on.
struct Departure {
  Sender sender;
  Error why;
};

struct InboxOptions {
  /// As of any end; when_slow, depth and receive towards each of the producers.
  ConsumerOptions channel{};
  /// How many may be there at a time. Each costs about six descriptors here and the memory of what
  /// it sends there.
  unsigned producers = 64;
  static constexpr unsigned kMaxProducers = 4096;
  /// What all of them together may cost this process. Half of it is divided evenly, so that what
  /// some take leaves each of the others its share; see also channel.receive.
  ReceiveLimits total{};
  /// Called once for each that goes, within receive(), after its last message was handed out. Must
  /// not use the inbox.
  std::function<void(const Departure&)> on_departure{};
};

/// A receiving end that any number of producers come to (Producer::connect()). Each has a ring,
/// credits and memory of its own: one that misbehaves, dies or does not read costs itself alone.
/// One thread at a time; messages may be released from any thread.
class GANTRY_API Inbox {
 public:
  /// Takes the name; producers may come from then on, also while nobody receives. Errors:
  /// `already_exists`, `invalid_argument`, `permission_denied`.
  [[nodiscard]] static Result<Inbox> open(std::string_view name, const InboxOptions& options = {});
  Inbox(Inbox&&) noexcept;
  Inbox& operator=(Inbox&&) noexcept;
  ~Inbox();  ///< The producers see `peer_gone`.

  struct Delivery {
    Sender sender;
    Message message;
  };
  /// The next message of any producer, whole. Those that have messages take turns. An inbox does
  /// not end: with nobody there it waits. Errors: `timed_out`, `interrupted`.
  [[nodiscard]] Result<Delivery> receive(Deadline deadline = Deadline::never());

  /// For loops on poll() or epoll, one for all producers; see Consumer::event_descriptor().
  [[nodiscard]] Result<int> event_descriptor();

  /// Those that receive() has met and that have not departed.
  [[nodiscard]] std::vector<Sender> senders() const;
  [[nodiscard]] MetricsReport metrics() const;  ///< Messages and bytes, of all that ever came.

  class Impl;

 private:
  explicit Inbox(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

}  // namespace gantry
