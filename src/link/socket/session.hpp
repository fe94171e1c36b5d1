#pragma once  // link/socket/session.hpp: what stream and shared links are: records over a socket.

#include <condition_variable>
#include <gantry/link.hpp>
#include <mutex>

#include "base/fd.hpp"
#include "base/fork.hpp"
#include "link/exports.hpp"
#include "link/puller.hpp"
#include "link/socket/record_reader.hpp"
#include "link/socket/record_writer.hpp"
#include "link/transfers.hpp"
#include "trace/end_trace.hpp"

namespace gantry {

inline constexpr std::size_t kMaxLinkControls = 64;
inline constexpr std::size_t kMaxLinkSignals = 1024;

/// Everything happens under one lock, in whatever thread calls. One waiting thread sleeps on the
/// socket, others until somebody has made progress; who makes it meanwhile rings for the sleeper,
/// since what that one waits for may have been read for it.
///   I1  Payload is received into exported memory under the lock only, so after withdraw() none is.
///   I2  Nothing is queued for the peer that the peer can make grow without end: answers are
///   limited
///       by kMost transfers, messages and signals by what was taken.
///   I3  After failure_ is set, neither the socket nor any user's memory is touched.
class SocketSession final : public detail::Exporter,
                            public std::enable_shared_from_this<SocketSession> {
 public:
  /// `puller`: another way for payload; null: there is none.
  SocketSession(Fd socket, Fd epoll, Fd ring, std::string peer, const LinkOptions& options,
                std::unique_ptr<Puller> puller);
  ~SocketSession() override;
  SocketSession(const SocketSession&) = delete;
  SocketSession& operator=(const SocketSession&) = delete;

  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  [[nodiscard]] LinkKind kind() const noexcept {
    return puller_ ? puller_->kind() : LinkKind::stream;
  }
  void start();  ///< Call it once, first.

  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }
  [[nodiscard]] Cost cost() const;
  [[nodiscard]] bool pulls() const noexcept;
  [[nodiscard]] LinkExplanation explain(const Transfer& transfer) const;
  [[nodiscard]] LinkReport report() const;

  [[nodiscard]] Result<Export> add_export(ByteSpan memory, RemoteAccess access, int descriptor);
  void withdraw(std::uint64_t key) noexcept override;

  [[nodiscard]] Result<Ticket> begin(const Transfer& transfer, bool is_put);
  [[nodiscard]] Outcome outcome(Ticket ticket) const;
  [[nodiscard]] Result<void> wait(Ticket ticket, Deadline deadline);

  [[nodiscard]] Result<void> send_control(ConstByteSpan message, Deadline deadline);
  [[nodiscard]] Result<Bytes> receive_control(ByteSpan into, Deadline deadline);
  [[nodiscard]] Result<std::uint64_t> receive_signal(Deadline deadline);

  [[nodiscard]] bool poll();
  [[nodiscard]] bool begin_turn();  ///< LinkInTurns.
  bool end_turn() noexcept;
  [[nodiscard]] bool has_words_left() const noexcept;
  [[nodiscard]] Result<void> state() const;
  void close() noexcept;

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// A transfer that goes out: a put of ours, or what a get of ours asks for.
  struct Unsent {
    Ticket ticket{};
    Transfer transfer;
    RowCursor rows;
    Bytes done = 0;
    bool is_put = true;
    std::optional<LinkRecord> pulled = {};  // all that goes out of a put that the far end pulls
  };
  /// What the far end has asked for.
  struct Answer {
    Ticket ticket{};
    std::uint64_t key = 0;
    RowCursor rows;
    std::optional<std::uint64_t> signal;
    Bytes bytes = 0;
    Time begun = {};
  };
  /// A put of the far end's that has come in, behind one that is still being pulled.
  struct IncomingPut {
    Ticket ticket{};
    std::optional<std::uint64_t> signal;
    bool has_ended = false;
  };
  enum class Frame : std::uint8_t { none, small, transfer, answer };

  // session.cpp
  template <class IsSo>
  [[nodiscard]] bool wait_until(std::unique_lock<std::mutex>& lock, Deadline deadline, IsSo is_so);
  void sleep(std::unique_lock<std::mutex>& lock, Deadline deadline);
  void wake_all() noexcept;
  [[nodiscard]] tl::unexpected<Error> ended() const { return tl::unexpected<Error>(*failure_); }
  [[nodiscard]] bool begin_pulled(const Transfer& transfer, Ticket ticket, bool is_put);
  [[nodiscard]] std::optional<LinkRecord> pulled_put(const Transfer& transfer, Ticket ticket);

  // session_progress.cpp
  template <class Work>
  bool or_fail(Work work) noexcept;
  bool progress();
  bool progress_some(Time now);
  bool flush() noexcept;  ///< Not within a turn.
  bool flush_now() noexcept;
  bool flush_some();
  [[nodiscard]] bool begin_frame();
  void send_pulled_puts();
  [[nodiscard]] static LinkRecord piece_of(const Unsent& unsent, Bytes& payload);
  void end_frame();
  void end_answer();
  bool read();
  [[nodiscard]] Result<void> take_step(RecordReader::Step step);
  bool end_pulls();
  void end_pull(const Puller::Job& job);
  void check_life(Time now);
  void tell_credit();
  void want_writable(bool wanted) noexcept;
  void fail_with(Error error) noexcept;
  void say_bye(LinkStatus status) noexcept;
  void tell_withdrawn(std::uint64_t key, bool is_shared);
  void send_done(Ticket ticket, LinkStatus status);
  void end_transfer(Ticket ticket, LinkStatus status);
  /// For whoever records. While nobody does, one load and one branch.
  void trace(trace::Moved what, Time begin, Time end, Bytes bytes, std::uint64_t ticket = 0) {
    if (trace::is_on()) [[unlikely]]
      slow_trace(what, begin, end, bytes, ticket);
  }
  void trace_wait(Time began);  ///< No time: nobody recorded when it began.
  void slow_trace(trace::Moved what, Time begin, Time end, Bytes bytes, std::uint64_t ticket);

  // session_records.cpp
  [[nodiscard]] Result<void> take_record();
  [[nodiscard]] Result<void> take_put(const LinkRecord& record);
  [[nodiscard]] Result<void> take_put_pulled(const LinkRecord& record);
  [[nodiscard]] Result<void> take_get(const LinkRecord& record);
  [[nodiscard]] Result<void> take_data(const LinkRecord& record);
  [[nodiscard]] Result<void> take_done(const LinkRecord& record);
  [[nodiscard]] Result<void> take_control(const LinkRecord& record);
  [[nodiscard]] Result<void> take_credit(const LinkRecord& record);
  [[nodiscard]] Result<void> take_share(const LinkRecord& record);
  [[nodiscard]] Result<void> take_bye(const LinkRecord& record);
  [[nodiscard]] Result<std::byte*> reach(const LinkRecord& record, RemoteAccess wanted);
  [[nodiscard]] Result<void> take_signal(const std::optional<std::uint64_t>& signal);
  [[nodiscard]] Result<void> take_put_signal(const std::optional<std::uint64_t>& signal);
  [[nodiscard]] Result<void> end_incoming(Ticket ticket, bool is_well);
  [[nodiscard]] Result<void> end_payload();

  Fd socket_;
  const Fd epoll_;
  const Fd ring_;  // an event, for the thread that sleeps on the epoll
  const std::string peer_;
  const std::chrono::nanoseconds stall_limit_;
  const std::chrono::nanoseconds beat_;  // after which it says that it lives
  const bool falls_back_;
  const ForkGuard fork_guard_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool has_sleeper_ = false;  // a thread sleeps on the epoll
  bool has_moved_ = false;    // since the last poll()
  bool is_in_turn_ = false;   // LinkInTurns
  std::optional<Error> failure_;
  Exports exports_;
  Transfers transfers_;
  std::unique_ptr<Puller> puller_;
  LinkReport landed_;  // what the far end did here
  trace::RoamingTrace trace_;

  RecordWriter writer_;
  std::deque<Unsent> unsent_;
  std::deque<Answer> answers_;
  Frame frame_ = Frame::none;  // what the writer's frame carries
  Bytes frame_payload_ = 0;
  bool was_answer_ = false;      // so that both get their turn
  bool answer_is_gone_ = false;  // its export ended while it was being sent
  bool wants_writable_ = false;
  bool is_write_over_ = false;  // the peer receives no more

  RecordReader reader_;
  bool has_payload_ = false;                // the reader's record has more to come
  LinkStatus put_status_ = LinkStatus::ok;  // of the put whose pieces are arriving
  Time put_begun_ = {};                     // and when the first of them came
  Bytes put_bytes_ = 0;                     // and how much has
  std::vector<std::byte> control_;          // being received
  std::deque<std::vector<std::byte>> controls_;
  std::deque<std::uint64_t> signals_;
  std::deque<IncomingPut> incoming_;  // in their order, from the first that is being pulled on
  std::size_t controls_out_ = 0;      // sent and not known to be taken
  std::size_t signals_out_ = 0;
  std::size_t controls_taken_ = 0;  // since the peer was told
  std::size_t signals_taken_ = 0;

  Time heard_;   // a byte of the peer's
  Time said_;    // a byte of ours
  Time polled_;  // by this end's user
  Time patient_from_;
};

}  // namespace gantry
