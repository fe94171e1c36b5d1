#include "net/link/socket/socket_link.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <mutex>

#include "core/base/event.hpp"
#include "core/base/os/close_elsewhere.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/os/fork_error.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/result.hpp"
#include "core/base/wait.hpp"
#include "net/link/socket/inbox.hpp"
#include "net/link/socket/mapped_puller.hpp"
#include "net/link/turn.hpp"

namespace gantry {
namespace {

constexpr Bytes kMostBytes = std::numeric_limits<std::int64_t>::max();

/// Ends exports, which may outlive their link.
///   I1  link_ lives: its destructor lets go first. mutex_ is locked before the link's.
template <class Owner>
class SocketExporter final : public detail::Exporter {
 public:
  explicit SocketExporter(Owner* link) noexcept : link_(link) {}
  void withdraw(std::uint64_t key) noexcept override {
    if (!fork_guard_.is_this()) return;
    const std::lock_guard lock(mutex_);
    if (link_ != nullptr) link_->withdraw(key);
  }
  void let_go() noexcept {
    if (!fork_guard_.is_this()) return;
    const std::lock_guard lock(mutex_);
    link_ = nullptr;
  }

 private:
  const ForkGuard fork_guard_;
  std::mutex mutex_;  // guards link_
  Owner* link_;
};

/// Everything happens under one lock, in whatever thread calls. One waiting thread sleeps on the
/// socket, others until somebody has made progress; who makes it meanwhile rings for the sleeper,
/// since what that one waits for may have been read for it.
///   I1  Payload is received into exported memory under the lock only, so after withdraw() none is.
///   I2  Nothing is queued that the peer can make grow without end: answers are limited by kMost
///       transfers, messages and signals by what was taken.
///   I3  After failure_ is set, neither the socket nor any user's memory is touched.
class SocketLink final : public Link, public LinkInTurns {
 public:
  /// `puller`: another way for payload; null: there is none.
  SocketLink(Fd socket, Fd epoll, Fd ring, std::string peer, const LinkOptions& options,
             std::unique_ptr<Puller> puller)
      : socket_(std::move(socket)),
        epoll_(std::move(epoll)),
        ring_(std::move(ring)),
        peer_(std::move(peer)),
        stall_limit_(options.stall_limit),
        beat_(std::min<std::chrono::nanoseconds>(stall_limit_ / 3, kLongestBeat)),
        falls_back_(options.falls_back),
        ledger_(peer_, std::move(puller)),
        outbox_(socket_.get(), ledger_),
        inbox_(socket_.get(), ledger_, outbox_),
        polled_(std::chrono::steady_clock::now()),
        patient_from_(polled_) {
    if (!ledger_.puller) return;
    const auto words = ledger_.puller->hello();
    if (words.empty()) return;
    LinkRecord hello{LinkRecord::Kind::hello};
    hello.rows = 1;
    hello.row_bytes = words.size();
    outbox_.add(hello, words);
    flush();
  }
  // Descriptors that lie in the queue may take their time to be closed.
  ~SocketLink() override {
    SocketLink::close();
    exporter_->let_go();
    if (ledger_.puller && ledger_.puller->takes_descriptors()) close_socket(std::move(socket_));
  }

  [[nodiscard]] LinkKind kind() const noexcept override {
    return ledger_.puller ? ledger_.puller->kind() : LinkKind::stream;
  }
  [[nodiscard]] const std::string& peer() const noexcept override { return peer_; }
  [[nodiscard]] LinkCapabilities capabilities() const noexcept override {
    const std::lock_guard lock(mutex_);
    return {.one_sided = false,
            .needs_registration = false,
            .pulls = ledger_.puller && ledger_.puller->suits(1, kLinkPieceBytes),
            .max_transfer_bytes = kMostBytes,
            .max_control_bytes = kMaxControlBytes,
            .max_transfers = Transfers::kMost,
            .max_controls = kMaxLinkControls,
            .max_signals = kMaxLinkSignals,
            .max_exports = Exports::kMost};
  }
  [[nodiscard]] Cost cost() const override {
    const std::lock_guard lock(mutex_);
    return ledger_.transfers.cost();
  }
  [[nodiscard]] LinkExplanation explain(const Transfer& transfer) const override {
    const std::lock_guard lock(mutex_);
    LinkExplanation explanation;
    explanation.kind = kind();
    explanation.peer = peer_;
    const auto bytes = payload_of(transfer.rows, transfer.row_bytes);
    const auto extent = extent_of(transfer.rows, transfer.row_bytes, transfer.local_stride);
    if (failure_) explanation.reasons.push_back(failure_->message);
    if (!bytes || !extent) {
      explanation.reasons.emplace_back("its rows overlap, or are more than memory has");
      return explanation;
    }
    explanation.predicted = ledger_.transfers.cost().of(*bytes);
    const bool is_suited =
        ledger_.puller && ledger_.puller->suits(transfer.rows, transfer.row_bytes);
    const bool is_pulled_get = is_suited && ledger_.puller->has(transfer.remote.key);
    const bool is_pulled_put =
        is_suited && ledger_.exports.shared_place({transfer.local, *extent}).has_value();
    if (is_pulled_get)
      explanation.reasons.push_back("a get is pulled here: " + ledger_.puller->about());
    if (is_pulled_put)
      explanation.reasons.push_back("a put is pulled by the far end: " + ledger_.puller->about());
    if (ledger_.puller && !is_pulled_get && !is_pulled_put)
      explanation.reasons.push_back(
          is_suited ? "takes the socket: the memory lies in no region that was exported for reading"
                    : "takes the socket: " + ledger_.puller->about());
    if (!is_pulled_get && !is_pulled_put)
      explanation.reasons.push_back(fmt::format(
          "received straight into its place, in pieces of up to {} bytes", kLinkPieceBytes));
    explanation.reasons.emplace_back("goes on while both ends call their link");
    return explanation;
  }
  [[nodiscard]] LinkReport report() const override {
    const std::lock_guard lock(mutex_);
    LinkReport report = ledger_.landed;
    ledger_.transfers.add_to(report);
    return report;
  }

  [[nodiscard]] Result<Export> export_memory(ByteSpan memory, RemoteAccess access) override {
    return guarded([&] { return add_export(memory, access, -1); });
  }
  [[nodiscard]] Result<Export> export_region(const Region& region, RemoteAccess access) override {
    return guarded(
        [&] { return add_export({region.data(), region.size()}, access, region.descriptor()); });
  }
  void withdraw(std::uint64_t key) noexcept {
    const std::lock_guard lock(mutex_);
    const auto was = ledger_.exports.remove(key);
    if (!was || failure_) return;  // I3
    inbox_.withdraw(key);          // I1
    if (ledger_.puller) ledger_.puller->finish_puts_to(key);
    const auto told = guarded([&]() -> Result<void> {
      outbox_.withdraw(key, was->is_shared);
      return {};
    });
    if (!told) fail_with(told.error());
    flush();
  }

  [[nodiscard]] Result<Ticket> put(const Transfer& transfer) override {
    return guarded([&] { return begin(transfer, true); });
  }
  [[nodiscard]] Result<Ticket> get(const Transfer& transfer) override {
    return guarded([&] { return begin(transfer, false); });
  }
  [[nodiscard]] Outcome outcome(Ticket ticket) const override {
    const std::lock_guard lock(mutex_);
    return ledger_.transfers.outcome(ticket);
  }
  [[nodiscard]] Result<void> wait(Ticket ticket, Deadline deadline) override {
    return guarded([&]() -> Result<void> {
      GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
      std::unique_lock lock(mutex_);
      const auto is_over = [&] { return ledger_.transfers.outcome(ticket) != Outcome::pending; };
      if (!wait_until(lock, deadline, is_over) && !is_over())
        return fail(Code::timed_out,
                    fmt::format("link to {}: transfer {} had not ended when time was up", peer_,
                                static_cast<std::uint64_t>(ticket)),
                    "allow more time; the far end must call its link, too");
      if (failure_ && ledger_.transfers.failed_with_link(ticket)) return tl::unexpected(*failure_);
      return ledger_.transfers.result(ticket, peer_);
    });
  }
  [[nodiscard]] Result<void> send_control(ConstByteSpan message, Deadline deadline) override {
    return guarded([&]() -> Result<void> {
      GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
      if (message.empty()) return fail(Code::invalid_argument, "a control message of 0 bytes");
      if (message.size() > kMaxControlBytes)
        return fail(Code::too_large,
                    fmt::format("a control message of {} bytes, beyond {}", message.size(),
                                kMaxControlBytes),
                    "put() it into exported memory");
      std::unique_lock lock(mutex_);
      const auto has_room = [this] { return !failure_ && ledger_.controls_out < kMaxLinkControls; };
      if (!wait_until(lock, deadline, has_room)) {
        if (failure_) return tl::unexpected(*failure_);
        return fail(Code::timed_out, fmt::format("link to {}: it has not taken {} control messages",
                                                 peer_, ledger_.controls_out));
      }
      LinkRecord record{LinkRecord::Kind::control};
      record.rows = 1;
      record.row_bytes = message.size();
      outbox_.add(record, message);
      ++ledger_.controls_out;
      if (trace::is_on()) [[unlikely]] {
        const Time now = std::chrono::steady_clock::now();
        ledger_.note(trace::Moved::sent, now, now, message.size());
      }
      flush();
      return {};
    });
  }
  [[nodiscard]] Result<Bytes> receive_control(ByteSpan into, Deadline deadline) override {
    return guarded([&]() -> Result<Bytes> {
      GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
      std::unique_lock lock(mutex_);
      if (!wait_until(lock, deadline, [this] { return inbox_.has_control(); })) {
        if (failure_) return tl::unexpected(*failure_);
        return fail(Code::timed_out, fmt::format("link to {}: no control message in time", peer_));
      }
      const ConstByteSpan message = inbox_.control();
      const Bytes bytes = message.size();
      if (bytes > into.size())
        return fail(Code::too_large, fmt::format("a control message of {} bytes into memory of {}",
                                                 bytes, into.size()));
      std::ranges::copy(message, into.begin());
      if (inbox_.drop_control()) flush();
      return bytes;
    });
  }
  [[nodiscard]] Result<std::uint64_t> receive_signal(Deadline deadline) override {
    return guarded([&]() -> Result<std::uint64_t> {
      GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
      std::unique_lock lock(mutex_);
      if (!wait_until(lock, deadline, [this] { return !ledger_.signals.empty(); })) {
        if (failure_) return tl::unexpected(*failure_);
        return fail(Code::timed_out, fmt::format("link to {}: no signal in time", peer_));
      }
      std::uint64_t signal = 0;
      if (inbox_.take_signal(signal)) flush();
      return signal;
    });
  }

  bool poll() override {
    if (!fork_guard_.is_this()) return false;
    const std::lock_guard lock(mutex_);
    const bool has_moved = progress();
    return std::exchange(has_moved_, false) || has_moved;
  }
  [[nodiscard]] bool begin_turn() override {
    if (!fork_guard_.is_this()) return false;
    const std::lock_guard lock(mutex_);
    is_in_turn_ = true;  // answers to what comes in now go out with what is said to it
    const bool has_moved = progress();
    return std::exchange(has_moved_, false) || has_moved;
  }
  bool end_turn() noexcept override {
    if (!fork_guard_.is_this()) return false;
    const std::lock_guard lock(mutex_);
    is_in_turn_ = false;
    if (!failure_) flush_now();
    return has_moved_;
  }
  [[nodiscard]] bool has_words_left() const noexcept override {
    const std::lock_guard lock(mutex_);
    return !failure_ && outbox_.has_words_left();
  }
  [[nodiscard]] bool has_payload_left() const noexcept override {
    const std::lock_guard lock(mutex_);
    return !failure_ && outbox_.has_payload_left();
  }
  [[nodiscard]] int descriptor() const noexcept override { return epoll_.get(); }
  [[nodiscard]] Result<void> state() const override {
    GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
    const std::lock_guard lock(mutex_);
    if (failure_) return tl::unexpected(*failure_);
    return {};
  }
  void close() noexcept override {
    if (!fork_guard_.is_this()) return;
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    outbox_.say_bye(LinkStatus::ok);
    fail_with({Code::closed, "closed at this end", {}});
  }

 private:
  using Time = LinkLedger::Time;

  [[nodiscard]] Result<Export> add_export(ByteSpan memory, RemoteAccess access, int descriptor) {
    GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
    const std::lock_guard lock(mutex_);
    if (failure_) return tl::unexpected(*failure_);
    GANTRY_ASSIGN(const std::uint64_t key, ledger_.exports.add(memory, access));
    if (ledger_.puller && access != RemoteAccess::write) {
      if (auto share = ledger_.puller->share(key, memory, descriptor)) {
        outbox_.add(share->record, {}, std::move(share->descriptor));
        ledger_.exports.set_shared(key);
        flush();
      }
    }
    return Export(exporter_, {key, memory.size(), access});
  }

  [[nodiscard]] Result<Ticket> begin(const Transfer& transfer, bool is_put) {
    GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
    const std::lock_guard lock(mutex_);
    if (failure_) return tl::unexpected(*failure_);
    GANTRY_TRY(check_transfer(transfer, is_put ? RemoteAccess::write : RemoteAccess::read,
                              is_put ? "put" : "get"));
    if (transfer.signal && ledger_.signals_out >= kMaxLinkSignals)
      return fail(Code::busy, fmt::format("{} signals are not taken yet", ledger_.signals_out),
                  "the far end takes them by receive_signal()");
    GANTRY_ASSIGN(const Ticket ticket, ledger_.transfers.begin(transfer, is_put));
    if (transfer.signal) ++ledger_.signals_out;
    if (!begin_pulled(transfer, ticket, is_put)) outbox_.add_transfer(ticket, transfer, is_put);
    flush();
    return ticket;
  }

  // True: no payload takes the socket.
  [[nodiscard]] bool begin_pulled(const Transfer& transfer, Ticket ticket, bool is_put) {
    const Bytes bytes = transfer.rows * transfer.row_bytes;
    if (!ledger_.puller || bytes == 0 || !ledger_.puller->suits(transfer.rows, transfer.row_bytes))
      return false;
    if (!is_put) {
      const Puller::Job job{false, ticket, 0, transfer.signal, bytes};
      const Puller::Source source{transfer.remote.key, transfer.remote_offset, transfer.rows,
                                  transfer.row_bytes, transfer.remote_stride};
      return ledger_.puller->begin(job, local_rows(transfer), source) == Puller::Begun::yes;
    }
    const auto record = ledger_.pulled_put(transfer, ticket);
    if (!record) return false;
    outbox_.add_transfer(ticket, transfer, true, record);
    return true;
  }

  // ---- waiting

  // False: the deadline or the link's end came first.
  template <class IsSo>
  bool wait_until(std::unique_lock<std::mutex>& lock, Deadline deadline, IsSo is_so) {
    for (;;) {
      if (is_so()) return true;
      if (is_in_turn_ && (failure_ || deadline.passed())) return false;
      const bool has_moved = progress();
      if (is_so()) return true;
      if (failure_ || deadline.passed()) return false;
      if (has_moved) {
        lock.unlock();  // others may have a turn
        lock.lock();
      } else {
        sleep(lock, deadline);
      }
    }
  }

  void sleep(std::unique_lock<std::mutex>& lock, Deadline deadline) {
    constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(1);
    const auto until_life = stall_limit_.count() > 0 ? beat_ / 2 : kLongest;
    const auto most = std::min({deadline.left(), until_life, kLongest});
    const Time began = trace::is_on() ? std::chrono::steady_clock::now() : Time{};
    if (has_sleeper_) {
      changed_.wait_for(lock, most);
      return ledger_.note_wait(began);
    }
    has_sleeper_ = true;
    lock.unlock();
    sleep_on({epoll_.get(), ring_.get()}, most);
    lock.lock();
    has_sleeper_ = false;
    drain(ring_.get());
    changed_.notify_all();
    ledger_.note_wait(began);
  }

  void wake_all() noexcept {
    changed_.notify_all();
    if (has_sleeper_) ring(ring_.get());
  }

  // ---- progress

  // Without memory the link ends: what was half done cannot be taken up again.
  template <class Work>
  bool or_fail(Work work) noexcept {
    auto done = guarded([&]() -> Result<bool> { return work(); });
    if (done) return *done;
    fail_with(std::move(done).error());
    return true;
  }

  // Not within a turn.
  bool flush() noexcept { return !is_in_turn_ && flush_now(); }

  // A signal may come up in any thread's call, also as it only sends.
  bool flush_now() noexcept {
    if (failure_) return false;  // I3
    return or_fail([this]() -> Result<bool> {
      GANTRY_ASSIGN(const LinkOutbox::Flushed flushed, outbox_.flush());
      want_writable(flushed.waits);
      if (std::exchange(ledger_.has_raised, false)) {
        has_moved_ = true;
        wake_all();
      }
      return flushed.has_moved;
    });
  }

  bool progress() {
    if (failure_) return false;
    const Time now = std::chrono::steady_clock::now();
    trace::look(now);
    if (now - polled_ > stall_limit_ / 3) patient_from_ = now;  // this end was busy elsewhere
    polled_ = now;
    const bool has_moved = or_fail([&] { return progress_some(now); });
    has_moved_ |= has_moved;
    ledger_.has_raised = false;  // has_moved says so
    if (has_moved) wake_all();
    return has_moved || (ledger_.puller && !failure_ && ledger_.puller->needs_calls());
  }

  bool progress_some(Time now) {
    bool has_moved = flush_now();
    if (!failure_) has_moved |= read();
    if (ledger_.puller && !failure_) has_moved |= or_fail([this] { return inbox_.end_pulls(); });
    if (ledger_.puller && !failure_ && !falls_back_ && ledger_.puller->is_lost())
      fail_with({Code::peer_gone, "the connection that payload takes was lost",
                 "a firewall may keep it from standing; the stream path needs none"});
    if (!failure_ && has_moved) flush();
    if (!failure_) check_life(now);
    return has_moved;
  }

  // A peer that breaks the rules is told so.
  [[nodiscard]] bool read() {
    auto has_moved = inbox_.read();
    if (has_moved) return *has_moved;
    if (has_moved.error().code == Code::peer_misbehaved) outbox_.say_bye(LinkStatus::broke_rules);
    fail_with(std::move(has_moved).error());
    return true;
  }

  void check_life(Time now) {
    if (stall_limit_.count() == 0) return;
    if (now - std::max(inbox_.heard(), patient_from_) >= stall_limit_)
      return fail_with(
          {Code::peer_gone,
           fmt::format("nothing was heard of it for {} ms; the connection is still open",
                       std::chrono::duration_cast<std::chrono::milliseconds>(stall_limit_).count()),
           "its host or the network is down, or the process there does not call its link"});
    if (now - outbox_.said() < beat_ || !outbox_.is_idle()) return;
    outbox_.add(LinkRecord{LinkRecord::Kind::alive});
    flush();
  }

  void want_writable(bool wanted) noexcept {
    if (wanted == wants_writable_) return;
    wants_writable_ = wanted;
    epoll_event event{};
    event.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
  }

  void fail_with(Error error) noexcept {
    if (failure_) return;
    auto text = guarded([&]() -> Result<std::string> {
      return fmt::format("link to {}: {}", peer_, error.message);
    });
    if (text) error.message = *std::move(text);
    failure_ = std::move(error);  // I3
    ledger_.transfers.end_all();
    if (ledger_.puller) ledger_.puller->stop();
    outbox_.clear();
    ::shutdown(socket_.get(), SHUT_RDWR);
    wake_all();
  }

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
  bool has_sleeper_ = false;     // a thread sleeps on the epoll
  bool has_moved_ = false;       // since the last poll()
  bool is_in_turn_ = false;      // LinkInTurns
  bool wants_writable_ = false;  // of the epoll
  std::optional<Error> failure_;
  LinkLedger ledger_;
  LinkOutbox outbox_;
  LinkInbox inbox_;
  Time polled_;  // by this end's user
  Time patient_from_;
  const std::shared_ptr<SocketExporter<SocketLink>> exporter_ =
      std::make_shared<SocketExporter<SocketLink>>(this);
};

// ---- making one ----------------------------------------------------------------------------

int option_of(int socket, int option) noexcept {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

std::string peer_name(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "nobody";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &ipv4.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ::ntohs(ipv4.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &ipv6.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ::ntohs(ipv6.sin6_port));
  }
  const auto who = peer_of(socket);
  return who ? fmt::format("process {}", who->pid) : "an unknown process";
}

}  // namespace

Result<void> check_link_socket(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (option_of(socket, SO_TYPE) == SOCK_STREAM &&
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    return {};
  return fail(Code::invalid_argument,
              fmt::format("a link over descriptor {}: no connected stream socket", socket));
}

Result<std::unique_ptr<Link>> make_socket_link(Fd socket, const LinkOptions& options,
                                               std::unique_ptr<Puller> puller) {
  const int domain = option_of(socket.get(), SO_DOMAIN);
  const int yes = 1;  // small records wait for nothing
  if (domain == AF_INET || domain == AF_INET6)
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (domain == AF_UNIX) accept_rights(socket.get(), puller && puller->takes_descriptors());
  GANTRY_ASSIGN(Fd epoll, make_epoll({socket.get()}));
  if (puller)
    for (const int descriptor : puller->descriptors())
      GANTRY_TRY(watch_in(epoll.get(), descriptor, {.fd = descriptor}));
  GANTRY_ASSIGN(Fd ring, make_event());
  std::string peer = options.peer.empty() ? peer_name(socket.get()) : options.peer;
  return std::make_unique<SocketLink>(std::move(socket), std::move(epoll), std::move(ring),
                                      std::move(peer), options, std::move(puller));
}

Result<std::unique_ptr<Link>> make_stream_link(int socket, const LinkOptions& options) {
  Fd owned(socket);
  return guarded([&]() -> Result<std::unique_ptr<Link>> {
    GANTRY_TRY(check_link_socket(owned.get()));
    return make_socket_link(std::move(owned), options, nullptr);
  });
}

Result<std::unique_ptr<Link>> make_shared_link(int socket, std::shared_ptr<Engine> engine,
                                               const LinkOptions& options) {
  Fd owned(socket);
  return guarded([&]() -> Result<std::unique_ptr<Link>> {
    GANTRY_TRY(check_link_socket(owned.get()));
    if (option_of(owned.get(), SO_DOMAIN) != AF_UNIX)
      return fail(Code::invalid_argument, "a shared link over a socket that is not of this machine",
                  "use a Unix socket, or a stream link");
    GANTRY_ASSIGN(auto puller, MappedPuller::make(std::move(engine)));
    return make_socket_link(std::move(owned), options, std::move(puller));
  });
}

}  // namespace gantry
