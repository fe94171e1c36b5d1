#pragma once  // gantry/channel/work_queue.hpp: competing consumers: each item goes to one worker.

#include <gantry/channel/request.hpp>

namespace gantry {

/// What a queue holds, and for how many.
struct WorkQueueOptions {
  /// Of all ends: the folder, who may join, what each may cost. The queue takes two names there:
  /// its own, and that with ".put" behind it.
  ConsumerOptions channel{};
  PayloadOptions replies{};  ///< For each worker: how items get to it.
  ReceiveLimits total{};     ///< What all together may cost this process, as for an inbox.
  unsigned members = 64;     ///< Processes that may be connected at a time.
  /// Small items are copied here, so that those who put them need not keep them; so many of them
  /// at most. Beyond it, and those above kMostCopied, items stay in the memory of those who put
  /// them, each of whom waits when PayloadOptions::slots of its own do.
  std::size_t most_copied = 65'536;
  /// Size of the largest item that is copied.
  static constexpr Bytes kMostCopied = Bytes{64} << 10;
  /// An item that was handed out so often, and never acknowledged, is dropped. 0: it goes on.
  unsigned most_tries = 0;
  /// Items that may wait, for members that reserve() a place before each put(). 0: any number.
  std::size_t most_items = 0;
};

/// What a queue holds, and has counted since it was opened.
struct WorkQueueReport {
  std::size_t members = 0;          ///< Connected now.
  std::size_t waiting_items = 0;    ///< That nobody has asked for yet.
  std::size_t in_hand = 0;          ///< Handed out and not acknowledged.
  std::size_t waiting_workers = 0;  ///< In get() now.
  std::uint64_t put = 0;            ///< Items that the queue has taken in.
  std::uint64_t acknowledged = 0;   ///< Items that are done.
  std::uint64_t redelivered = 0;  ///< Handed out again, since the one before went or gave it back.
  std::uint64_t dropped = 0;      ///< After `most_tries`, or put after finish(); and one of each
                                  ///< member that the queue hung up on, which may be more.
};

/// The queue: a thread of this process that takes items in and hands them out, first come, first
/// served, on both sides. Items pass it by without a copy if they are large. When it goes, its
/// members get `peer_gone`, and the items in it are lost.
class GANTRY_API WorkQueue {
 public:
  /// Errors: `already_exists`, `invalid_argument` (also a name of more than 60 characters),
  /// `permission_denied`, `system`.
  [[nodiscard]] static Result<WorkQueue> open(std::string_view name,
                                              const WorkQueueOptions& options,
                                              std::shared_ptr<Engine> engine);
  WorkQueue(WorkQueue&&) noexcept;
  WorkQueue& operator=(WorkQueue&&) noexcept;
  ~WorkQueue();

  /// Returns before the queue sees it; what is put from then on is dropped. Workers get what is
  /// there, also what comes back, and then `closed`, also if this queue has gone by then. Any
  /// thread.
  void finish() noexcept;
  /// Waits until all that was put is acknowledged or dropped. Errors: `timed_out`; why the queue
  /// has ended; and, once, why it hung up on a member (`too_large`, `out_of_memory`,
  /// `peer_misbehaved`, `system`), what that one had put being lost.
  [[nodiscard]] Result<void> wait_until_done(Deadline deadline = Deadline::never());
  [[nodiscard]] WorkQueueReport report() const;  ///< Any thread.

  class Impl;

 private:
  explicit WorkQueue(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

/// When an item counts as done, so that no other worker gets it.
enum class Acknowledge : std::uint8_t {
  on_get,   ///< As get() returns it. What its worker does not finish is lost.
  by_hand,  ///< By WorkItem::done(). If its worker dies or leaves before, another one gets it.
};

/// How one end of a queue, which puts or gets, behaves.
struct WorkMemberOptions : EndOptions, PayloadOptions {
  ReceiveLimits receive{};                        ///< What items may cost this process.
  Acknowledge acknowledge = Acknowledge::on_get;  ///< Holds for the items that it gets.
};

/// An item that was got. Move-only; it may outlive its member. Dropping it releases its memory,
/// and, if it was neither acknowledged nor its member has gone, gives it back to the queue.
class GANTRY_API WorkItem {
 public:
  WorkItem() noexcept;
  WorkItem(WorkItem&&) noexcept;
  WorkItem& operator=(WorkItem&&) noexcept;
  ~WorkItem();

  /// Its payload, a segment for each that was put.
  [[nodiscard]] std::size_t segments() const noexcept;
  /// `index` must be below the number of the item's segments.
  [[nodiscard]] Segment segment(std::size_t index) const& noexcept;
  Segment segment(std::size_t index) const&& = delete;  // name the item first
  /// The payload, or its first segment; valid as long as the item.
  [[nodiscard]] ConstByteSpan bytes() const& noexcept { return segment(0).bytes; }
  ConstByteSpan bytes() const&& = delete;
  /// What was received: its last segment is the queue's own.
  [[nodiscard]] const Message& message() const noexcept { return message_; }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }  ///< Of the put, from 1.
  [[nodiscard]] unsigned tries() const noexcept { return tries_; }  ///< 1: nobody had it before.

  /// Acknowledges it. The payload stays readable. Errors: `peer_gone` (the queue has ended);
  /// `invalid_argument` (it was acknowledged).
  [[nodiscard]] Result<void> done();
  [[nodiscard]] explicit operator bool() const noexcept { return tries_ != 0; }

 private:
  friend class WorkMember;
  class Acknowledger;
  void give_back() noexcept;

  Message message_;
  std::shared_ptr<Acknowledger> acknowledger_;  // null: nothing is to be told
  std::uint64_t number_ = 0;
  unsigned tries_ = 0;
};

/// One that puts, gets, or does both. Used by one thread at a time.
class GANTRY_API WorkMember {
 public:
  /// Connects to the queue of that name and waits until `deadline` for it to appear. Errors: as
  /// Producer::connect().
  [[nodiscard]] static Result<WorkMember> connect(std::string_view name,
                                                  const WorkMemberOptions& options,
                                                  std::shared_ptr<Engine> engine,
                                                  Deadline deadline = Deadline::never());
  WorkMember(WorkMember&&) noexcept;
  WorkMember& operator=(WorkMember&&) noexcept;
  ~WorkMember();  ///< What it had not acknowledged goes to others.

  /// Puts an item; the payload is the caller's again on return. Waits while PayloadOptions::slots
  /// of its items wait in its own memory. Errors: as Producer::send().
  [[nodiscard]] Result<void> put(ConstByteSpan payload, Deadline deadline = Deadline::never());
  /// At most kMaxSegments - 1 parts.
  [[nodiscard]] Result<void> put(Draft draft, Deadline deadline = Deadline::never());
  /// Blocks of it are put without a copy.
  [[nodiscard]] Pool pool() const;

  /// Takes the next item that is this worker's. A get() that has timed out is still in the line:
  /// the next one goes on with it. The first one connects, for up to a second whatever the
  /// deadline. Errors: `timed_out`, `interrupted`; `closed` (the queue was finished and is empty);
  /// `busy` (this process holds as many items as WorkQueueOptions::replies.slots); `peer_gone`.
  [[nodiscard]] Result<WorkItem> get(Deadline deadline = Deadline::never());
  /// After a get() that has timed out or was interrupted: leaves the line, so that the next item is
  /// another's. Returns an item that was handed out before, or `timed_out`: nothing came, or the
  /// queue did not say so until `deadline`. In that case it takes back what it has handed out.
  [[nodiscard]] Result<WorkItem> withdraw(Deadline deadline = Deadline::never());

  // What else a member asks. A question that was interrupted or timed out goes on when it is asked
  // again. Errors of all: `timed_out`, `interrupted`, `peer_gone`.
  /// Waits for room for one item, which is kept until the next put(). A reserve() that has timed
  /// out keeps nothing; it waits up to a second more for the queue to say so.
  [[nodiscard]] Result<void> reserve(Deadline deadline = Deadline::never());
  /// One place that reserve() got is for others: no put() follows.
  [[nodiscard]] Result<void> give_place_back();
  /// With everything that this process put before.
  [[nodiscard]] Result<WorkQueueReport> report(Deadline deadline = Deadline::never());
  /// Counts one item as finished, whoever got it; apart from WorkItem::done(). Errors:
  /// `invalid_argument` (as many as were put are finished).
  [[nodiscard]] Result<void> task_done(Deadline deadline = Deadline::never());
  /// Waits until as many have been finished as were put.
  [[nodiscard]] Result<void> wait_until_finished(Deadline deadline = Deadline::never());
  /// As WorkQueue::wait_until_done(), from any process.
  [[nodiscard]] Result<void> wait_until_done(Deadline deadline = Deadline::never());
  /// For poll() or epoll: readable when get() may have an answer, after one with a passed deadline
  /// has said `timed_out`.
  [[nodiscard]] Result<int> event_descriptor();

  class Impl;

 private:
  explicit WorkMember(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry
