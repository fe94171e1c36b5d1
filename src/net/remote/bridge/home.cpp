#include "net/remote/bridge/home.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "core/base/event.hpp"
#include "core/base/os/close_elsewhere.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "net/remote/bridge/hand_over.hpp"
#include "net/remote/bridge/sessions.hpp"

namespace gantry {
namespace {

constexpr unsigned kMostCallers = 256;       // at one name
constexpr unsigned kMostOffers = 16;         // at one name: lines of bridges, each with a thread
constexpr rlim_t kDescriptorsOfCaller = 16;  // about
// How long the end of the process waits for callers to receive what was sent.
constexpr std::chrono::seconds kPatienceAtExit{5};

/// Serves the callers of one name. Its threads, which nobody joins, share it.
class Home final : public HandedCallers, public std::enable_shared_from_this<Home> {
 public:
  Home(Where where, std::unique_ptr<Sessions> sessions)
      : where_(std::move(where)), sessions_(std::move(sessions)) {}
  ~Home() override;

  void take(Fd line) noexcept override;
  void has_sent(Bytes bytes) noexcept override {
    if (fork_guard_.is_this()) sessions_->has_sent(bytes);
  }
  [[nodiscard]] Result<void> finish(Deadline deadline, int interrupt) override {
    return named(sessions_->await_present(deadline, interrupt));
  }
  // A reader gets what was sent, and a client its answers; a sender has nobody to send to.
  void retire() noexcept override {
    if (!fork_guard_.is_this()) return;
    is_retired_ = true;
    if (where_.ends_with_name) sessions_->stop();
  }

  [[nodiscard]] bool is_retired() const noexcept { return is_retired_; }
  [[nodiscard]] unsigned threads() const noexcept { return threads_; }
  void stop() noexcept { sessions_->stop(); }

 private:
  [[nodiscard]] Result<void> named(Result<void> done) const {
    if (done) return done;
    return prefixed(std::move(done).error(), "channel '{}'", where_.name);
  }
  class Line;
  [[nodiscard]] Result<void> hear(Line& line);
  [[nodiscard]] Result<void> begin(Line& line, const HandOffer& offer);
  [[nodiscard]] Result<void> go_on(const Line& line, const HandOffer& offer);
  [[nodiscard]] bool makes_room();

  const Where where_;
  const std::unique_ptr<Sessions> sessions_;
  const ForkGuard fork_guard_;
  std::atomic<bool> is_retired_{false};
  std::atomic<unsigned> threads_{0};
  std::mutex mutex_;         // guards what follows
  std::list<Line*> offers_;  // in the order of arrival
};

/// The end of the process waits for threads of names that were given up. Never destroyed: threads
/// may outlast main().
class Homes {
 public:
  static Homes& of_this_process() {
    static constinit std::atomic<Homes*> all{nullptr};
    Homes* known = all.load();
    if (known != nullptr && known->fork_guard_.is_this()) return *known;
    auto* const own = new Homes;  // NOLINT: a fork may have copied the other half-changed
    if (!all.compare_exchange_strong(known, own)) {
      delete own;  // NOLINT: another thread was quicker
      return *known;
    }
    std::atexit([] { of_this_process().await_end(); });
    return *own;
  }
  void add(Home& home) {
    const std::lock_guard lock(mutex_);
    homes_.push_back(&home);
  }
  void remove(Home& home) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(homes_, &home);
    changed_.notify_all();
  }
  void thread_ended() noexcept {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  /// The callers of all names leave the process half of its descriptors. Errors: `busy`.
  [[nodiscard]] Result<void> check_callers() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const std::lock_guard lock(mutex_);
    rlim_t callers = 0;
    for (const Home* const home : homes_) callers += home->threads();
    if (callers <= limit.rlim_cur / 2 / kDescriptorsOfCaller) return {};
    return fail(Code::busy, fmt::format("process {} has {} callers of other hosts, and descriptors "
                                        "for no more (ulimit -n {})",
                                        ::getpid(), callers - 1, limit.rlim_cur));
  }

 private:
  void await_end() {
    std::unique_lock lock(mutex_);
    const auto is_quiet = [this] {
      return std::ranges::none_of(homes_, [](const Home* home) { return home->threads() != 0; });
    };
    for (Home* const home : homes_)
      if (!home->is_retired()) home->stop();  // its sessions settle
    if (changed_.wait_for(lock, kPatienceAtExit, is_quiet)) return;
    for (Home* const home : homes_) home->stop();
    changed_.wait_for(lock, kPatienceAtExit / 2, is_quiet);
  }

  const ForkGuard fork_guard_;
  std::mutex mutex_;  // guards what follows
  std::list<Home*> homes_;
  std::condition_variable changed_;
};

Home::~Home() {
  if (fork_guard_.is_this()) Homes::of_this_process().remove(*this);
}

/// A line of a bridge. It has a place among the offers until its caller's session begins.
class Home::Line {
 public:
  Line(Home& home, Fd socket) : home_(home), socket_(std::move(socket)) {
    const std::lock_guard lock(home_.mutex_);
    home_.offers_.push_back(this);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() { end(); }

  [[nodiscard]] int get() const noexcept { return socket_.get(); }
  void has_spoken() {
    const std::lock_guard lock(home_.mutex_);
    is_silent_ = false;
  }
  /// Under the lock. False: it has said something.
  [[nodiscard]] bool drop_if_silent() const noexcept {
    return is_silent_ && ::shutdown(socket_.get(), SHUT_RDWR) == 0;
  }
  void end() noexcept {
    {
      const std::lock_guard lock(home_.mutex_);
      std::erase(home_.offers_, this);
    }
    close_socket(std::move(socket_));
  }

 private:
  Home& home_;
  Fd socket_;
  bool is_silent_ = true;  // under the lock
};

// Whoever opens lines and says nothing keeps no bridge out: the oldest of them goes.
bool Home::makes_room() {
  const std::lock_guard lock(mutex_);
  if (offers_.size() < kMostOffers) return true;
  const auto silent =
      std::ranges::find_if(offers_, [](const Line* line) { return line->drop_if_silent(); });
  if (silent == offers_.end()) return false;
  offers_.erase(silent);
  return true;
}

void Home::take(Fd socket) noexcept {
  // Only this thread adds to them. All sessions may come back at a time: each has a thread, too.
  if (threads_ >= kMostCallers + 2 * kMostOffers || !makes_room())
    return close_socket(std::move(socket));
  static_cast<void>(guarded([&]() -> Result<void> {
    auto line = std::make_shared<Line>(*this, std::move(socket));
    threads_.fetch_add(1);
    auto thread = start_thread("a thread for a caller of another host",
                               [self = shared_from_this(), line = std::move(line)]() mutable {
                                 static_cast<void>(guarded([&] { return self->hear(*line); }));
                                 line.reset();
                                 self->threads_.fetch_sub(1);
                                 Homes::of_this_process().thread_ended();
                               });
    if (!thread) return threads_.fetch_sub(1), tl::unexpected(std::move(thread).error());
    thread->detach();
    return {};
  }));
}

Result<void> Home::hear(Line& line) {
  GANTRY_ASSIGN(const HandOffer offer,
                hear_offer(line.get(), sessions_->stop_event(), Deadline::after(kAdmissionTime)));
  line.has_spoken();
  if (offer.request.channel != where_.name)
    return fail(Code::peer_misbehaved, "an offer for another name");
  if (offer.kind == HandOffer::Kind::question) return answer_offer(line.get(), {});
  if (offer.request.session != SessionId{}) return go_on(line, offer);
  return begin(line, offer);
}

Result<void> Home::begin(Line& line, const HandOffer& offer) {
  auto added = Homes::of_this_process().check_callers().and_then([&] {
    return sessions_->add(offer.session, offer.request, offer.patience, offer.stall_limit);
  });
  RemoteAnswer answer;
  answer.session = offer.session;
  if (!added) answer.refusal = added.error();
  auto socket = guarded([&]() -> Result<Fd> {
    if (added) (*added)->peer = (*added)->caller = offer.peer;
    GANTRY_TRY(answer_offer(line.get(), answer));
    if (!added) return tl::unexpected(added.error());
    return take_connection(line.get(), sessions_->stop_event());
  });
  line.end();
  if (!added) return {};
  if (!socket) {
    sessions_->forget(*added);
    return tl::unexpected(std::move(socket).error());
  }
  return sessions_->serve(*added, *std::move(socket), offer.request, {});
}

Result<void> Home::go_on(const Line& line, const HandOffer& offer) {
  if (has_given_up(line.get())) return {};  // a claim would cut a connection that lives
  RemoteAnswer answer;
  answer.session = offer.request.session;
  std::uint64_t claim = 0;
  const auto session = sessions_->claim(offer.request.session, answer, claim);
  GANTRY_TRY(answer_offer(line.get(), answer));
  if (!session) return {};
  GANTRY_ASSIGN(Fd socket, take_connection(line.get(), sessions_->stop_event()));
  sessions_->go_on(*session, claim, std::move(socket), offer.peer, RemotePath::stream,
                   offer.request.received);
  return {};
}

}  // namespace

std::shared_ptr<HandedCallers> make_handed_callers(HandedCallers::Where where) {
  auto made = guarded([&]() -> Result<std::shared_ptr<Home>> {
    Sessions::Setup setup;
    setup.directory = where.directory;
    setup.acceptor = where.acceptor;
    GANTRY_ASSIGN(setup.engine, make_inline_engine());
    setup.most = kMostCallers;
    setup.when_stopped = {Code::peer_gone, "its process ended it", {}};
    setup.is_at_home = true;
    GANTRY_ASSIGN(auto sessions, Sessions::make(std::move(setup)));
    auto home = std::make_shared<Home>(std::move(where), std::move(sessions));
    Homes::of_this_process().add(*home);
    return home;
  });
  return made ? *std::move(made) : nullptr;
}

}  // namespace gantry
