#pragma once  // gantry/channel/inbox.hpp: many producers, one consumer that has the name.

#include <functional>
#include <gantry/channel.hpp>

namespace gantry {

/// A producer as its inbox knows it, by what the kernel said when it connected.
struct Sender {
  std::uint64_t id = 0;  ///< Its number within this inbox, from 1; never used again.
  int pid = 0;           ///< 0: it lives in another PID namespace.
  unsigned uid = 0;      ///< The user that its process runs as.
};

/// A producer that has gone. `closed`: it ended its stream and all of it was received; `peer_gone`:
/// it died or left before that; `peer_misbehaved`: the inbox hung up on it; `system` or
/// `out_of_memory`: the inbox had no descriptors or no memory left for what it sent.
struct Departure {
  Sender sender;  ///< Who has gone.
  Error why;      ///< Its code is one of those above.
};

/// What an inbox takes, and of how many.
struct InboxOptions {
  /// As for any end; when_slow, depth and receive hold towards each producer.
  ConsumerOptions channel{};
  /// Producers that may be connected at a time. Each costs about six descriptors here and the
  /// memory of what it sends.
  unsigned producers = 64;
  static constexpr unsigned kMaxProducers = 4096;  ///< The most that `producers` may be.
  /// What all producers together may cost this process. Half of it is divided evenly, so that each
  /// producer has its share whatever the others take; see also channel.receive.
  ReceiveLimits total{};
  /// Called once for each producer that goes, within receive(), after its last message was handed
  /// out. Must not use the inbox.
  std::function<void(const Departure&)> on_departure{};
};

/// A receiving end to which any number of producers connect (Producer::connect()). Each has its own
/// ring, credits and memory: one that misbehaves, dies or does not read costs only itself. Used by
/// one thread at a time; any thread may release messages.
class GANTRY_API Inbox {
 public:
  /// Takes the name; from then on producers may connect, also while nobody receives. Errors:
  /// `already_exists`, `invalid_argument`, `permission_denied`.
  [[nodiscard]] static Result<Inbox> open(std::string_view name, const InboxOptions& options = {});
  Inbox(Inbox&&) noexcept;
  Inbox& operator=(Inbox&&) noexcept;
  ~Inbox();  ///< The producers see `peer_gone`.

  /// A message, and whose it is.
  struct Delivery {
    Sender sender;    ///< Who sent it, even if it has gone since.
    Message message;  ///< What it sent, whole.
  };
  /// Returns the next message of any producer, whole. Producers with messages take turns. An inbox
  /// does not end: without producers it waits. Errors: `timed_out`, `interrupted`.
  [[nodiscard]] Result<Delivery> receive(Deadline deadline = Deadline::never());

  /// One descriptor for poll() or epoll, for all producers; see Consumer::event_descriptor().
  [[nodiscard]] Result<int> event_descriptor();

  /// Producers that receive() has met and that have not gone.
  [[nodiscard]] std::vector<Sender> senders() const;
  [[nodiscard]] MetricsReport metrics() const;  ///< Messages and bytes, of all that ever came.

  class Impl;

 private:
  explicit Inbox(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

}  // namespace gantry
