#include "net/remote/bridge/relay.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <gantry/channel.hpp>

#include "core/base/event.hpp"
#include "core/base/os/disown.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "core/channel/wire/notice.hpp"
#include "net/remote/admission.hpp"
#include "net/remote/remote_step.hpp"

namespace gantry {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = "/.owner";  // no channel's name begins with a dot

Fd lock_of(const std::string& path, int flags) {
  Fd file(::open((path + kLockFile).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600));
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) file.reset();
  return file;
}

// A folder gets its name once its lock is held, so none with such a name is on its way.
void sweep(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    struct stat facts{};
    if (!entry->path().filename().string().starts_with(kLinkPrefix) ||
        ::lstat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) ||
        facts.st_uid != ::geteuid())
      continue;
    const Fd lock = lock_of(path, 0);
    std::error_code ignored;
    if (lock) fs::remove_all(path, ignored);
  }
}

constexpr std::chrono::milliseconds kBetweenCalls{50};

tl::unexpected<Error> with_name(Error error, const RemoteName& name) {
  return prefixed(std::move(error), "channel '{}'", name.text());
}

// The end that has the name there, and the words for its absence.
struct Awaited {
  std::string_view role;
  std::string_view lack;
};
Awaited awaited(RemoteRole role) noexcept {
  if (role == RemoteRole::call) return {"server", "there is no such service"};
  if (role == RemoteRole::deliver) return {"inbox", "there is no such inbox"};
  return {"producer", "nobody produces that channel"};
}

std::string awaited_text(const Relay::Setup& setup) {
  return fmt::format("channel '{}': waiting for its {}; gantry ls @{} lists what there is",
                     setup.name.text(), awaited(setup.request.role).role, setup.name.where.text());
}

// The bridge says when its end is open, or why it is not. False: it is to be called again.
Result<bool> await_joined(Link& link, const Relay::Setup& setup, int interrupt, Deadline deadline) {
  const Deadline patience = setup.notice ? Deadline::after(kNoticeAfter) : Deadline::never();
  bool has_told = false;
  std::array<std::byte, kMaxControlBytes> buffer{};
  for (;;) {
    GANTRY_ASSIGN(const auto record, next_record(link, buffer));
    if (record) {
      WordReader in(*record);
      const auto kind = static_cast<RemoteKind>(in.number(1));
      if (kind == RemoteKind::joined || kind == RemoteKind::again)
        return kind == RemoteKind::joined;
      if (kind != RemoteKind::stopped)
        return fail(Code::peer_misbehaved,
                    fmt::format("the bridge says what no bridge says (record kind {})",
                                static_cast<unsigned>(kind)));
      return tl::unexpected(read_error(in));
    }
    if (is_readable(interrupt)) return fail(Code::interrupted, "interrupted");
    if (patience.passed() && !std::exchange(has_told, true)) setup.notice(awaited_text(setup));
    if (deadline.passed())
      return fail(Code::timed_out,
                  fmt::format("{} on that host yet", awaited(setup.request.role).lack),
                  "start it there; gantry ls @HOST lists what there is");
    if (!link.poll())
      sleep_on({link.descriptor(), interrupt},
               std::min<std::chrono::nanoseconds>(deadline.left(), kRemoteRest));
  }
}

// A byte that was changed during the handshake of TLS looks like another token, or like no bridge.
// A session that goes on takes it for one more broken connection. Behind the handshake a refusal is
// the bridge's own.
Error as_broken(Error error) {
  if (error.code == Code::permission_denied || error.code == Code::peer_misbehaved)
    error.code = Code::peer_gone;
  return error;
}

// Nothing: the bridge is to be called again.
Result<std::optional<BridgeCall>> call_once(const Relay::Setup& setup,
                                            const std::shared_ptr<DetachedThreads>& carriers,
                                            RemoteRequest request, int interrupt,
                                            Deadline deadline) {
  const auto& [name, options] = std::tie(setup.name, setup.options);
  GANTRY_ASSIGN(const std::string token, token_or_file(options.token));
  const auto within = [&](std::chrono::nanoseconds most) {
    return Deadline::after(std::min(most, deadline.left()));
  };
  auto connected =
      connect_bridge(name.where, token, carriers, interrupt, within(options.stall_limit));
  if (!connected && request.session != SessionId{} && name.where.is_encrypted)
    return tl::unexpected(as_broken(std::move(connected).error()));
  GANTRY_ASSIGN(Fd socket, std::move(connected));
  request.stall_limit = options.stall_limit;
  request.who = own_end_name();
  GANTRY_ASSIGN(request.paths,
                paths_to_offer(options.path, {socket.get(), name.where.is_encrypted}));
  BridgeCall made;
  GANTRY_ASSIGN(made.answer,
                call_bridge(socket.get(), token, request, interrupt, within(kAdmissionTime)));
  const RemotePath path = made.answer.path;
  GANTRY_ASSIGN(made.link, link_over(path, std::move(socket), setup.engine,
                                     {name.where.text(), options.stall_limit}));
  GANTRY_TRY(await_path(path, *made.link, interrupt, within(kAdmissionTime)));
  if (request.session != SessionId{}) return made;
  GANTRY_ASSIGN(const bool is_joined, await_joined(*made.link, setup, interrupt, deadline));
  if (!is_joined) return std::nullopt;
  return made;
}

Result<BridgeCall> call(const Relay::Setup& setup, const std::shared_ptr<DetachedThreads>& carriers,
                        const RemoteRequest& request, int interrupt, Deadline deadline) {
  for (;;) {  // nothing of a call is kept until the next
    GANTRY_ASSIGN(auto made, call_once(setup, carriers, request, interrupt, deadline));
    if (made) return *std::move(made);
    sleep_on({interrupt}, std::min<std::chrono::nanoseconds>(kBetweenCalls, deadline.left()));
  }
}

/// Relays that were dropped while what they had sent was on its way, or what they say last under
/// TLS is: each ends by a thread of its own, since whoever drops an end does not wait. Who ends the
/// process does. Never destroyed: threads may outlast main().
class Retirement {
 public:
  // A fork may have copied it half-changed, and its threads are the parent's.
  static Retirement& of_this_process() {
    static constinit std::atomic<Retirement*> all{nullptr};
    Retirement* known = all.load();
    if (known != nullptr && known->fork_guard_.is_this()) return *known;
    auto* const own = new Retirement;  // NOLINT: see above
    if (all.compare_exchange_strong(known, own)) {
      std::atexit([] {
        DetachedThreads& threads = of_this_process().threads_;
        while (threads.is_any()) threads.await_end();
      });
      return *own;
    }
    delete own;  // NOLINT: another thread was quicker
    return *known;
  }

  /// False: there is no thread for it.
  bool begin(Relay* relay) noexcept {
    threads_.begin();
    auto thread =
        start_thread("a thread for an end of another host that was dropped", [this, relay] {
          delete relay;  // NOLINT: its last owner's deleter brought it
          threads_.end();
        });
    if (thread) return thread->detach(), true;
    threads_.end();
    return false;
  }

 private:
  const ForkGuard fork_guard_;
  DetachedThreads threads_;
};

}  // namespace

Result<LinkDirectory> LinkDirectory::make(const std::string& parent) {
  sweep(parent);
  std::string hidden = fmt::format("{}/.{}{}-XXXXXX", parent, kLinkPrefix, ::getpid());
  if (::mkdtemp(hidden.data()) == nullptr) return fail_errno(parent);
  Fd lock = lock_of(hidden, O_CREAT | O_EXCL);
  std::string path = hidden;
  path.erase(parent.size() + 1, 1);  // the dot
  if (!lock || ::rename(hidden.c_str(), path.c_str()) != 0) {
    auto failed = fail_errno(hidden);
    std::error_code ignored;
    fs::remove_all(hidden, ignored);
    return failed;
  }
  return LinkDirectory(std::move(path), std::move(lock));
}

LinkDirectory::~LinkDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<std::shared_ptr<Relay>> Relay::make(Setup setup, Deadline deadline) {
  GANTRY_ASSIGN(Fd stop, make_event());
  GANTRY_ASSIGN(Fd ended, make_event());
  GANTRY_ASSIGN(Fd turns, make_event());
  std::shared_ptr<Relay> relay(
      new Relay(std::move(setup), std::move(stop), std::move(ended), std::move(turns)), &retire);
  GANTRY_TRY(relay->connect(deadline));
  GANTRY_ASSIGN(relay->directory_, LinkDirectory::make(relay->setup_.parent));
  return relay;
}

void Relay::retire(Relay* relay) noexcept {
  const bool may_wait =
      relay->has_to_finish() || (relay->fork_guard_.is_this() && relay->carriers_->is_any());
  if (!may_wait || !Retirement::of_this_process().begin(relay))
    delete relay;  // NOLINT: a shared pointer's deleter
}

bool Relay::has_to_finish() const noexcept {
  if (!fork_guard_.is_this() || setup_.is_side_first || !thread_.joinable()) return false;
  const std::lock_guard lock(mutex_);
  return !over_;
}

Relay::Relay(Setup setup, Fd stop, Fd ended, Fd turns)
    : setup_(std::move(setup)),
      text_(setup_.name.text()),
      stop_(std::move(stop)),
      ended_(std::move(ended)),
      turns_(stop_.get(), std::move(turns), setup_.spin) {}

Result<void> Relay::connect(Deadline deadline) {
  auto made = make_call(setup_.request, setup_.interrupt, deadline);
  if (!made) return with_name(std::move(made).error(), setup_.name);
  call_ = *std::move(made);
  GANTRY_REMOTE_STEP(bridge_called);
  return {};
}

Result<BridgeCall> Relay::make_call(RemoteRequest request, int interrupt, Deadline deadline) {
  request.channel = setup_.name.channel;
  GANTRY_ASSIGN(auto made, call(setup_, carriers_, request, interrupt, deadline));
  const std::lock_guard lock(mutex_);
  taken_ = made.answer.path;
  served_ = made.answer.served;
  return made;
}

std::string Relay::path() const {
  const std::lock_guard lock(mutex_);
  return path_text(setup_.options.path, taken_, setup_.name.where.is_encrypted, served_);
}

Result<void> Relay::start() {
  GANTRY_ASSIGN(auto side, setup_.make_side(directory_.path()));
  drain(stop_.get());
  auto work = [this, side = std::move(side), call = std::move(*call_)]() mutable {
    GANTRY_REMOTE_STEP(relay_started);
    run(std::move(side), std::move(call));
  };
  call_.reset();
  GANTRY_ASSIGN(thread_, start_thread("a thread for a channel of another host", std::move(work)));
  return {};
}

void Relay::run(std::unique_ptr<RemoteSide> side, BridgeCall call) noexcept {
  auto end = guarded([&]() -> Result<RemoteEnd> { return carry(*side, std::move(call)); });
  Error why = end ? std::move(end->why) : std::move(end).error();
  {
    const std::lock_guard lock(mutex_);
    over_ = with_name(std::move(why), setup_.name).value();
  }
  GANTRY_REMOTE_STEP(relay_ended);
  ring(ended_.get());
  side.reset();  // only now: the user's end asks for the reason when it sees this one go
}

RemoteEnd Relay::carry(RemoteSide& side, BridgeCall call) {
  RemoteRequest again = setup_.request;
  again.session = call.answer.session;
  std::uint64_t received = 0;
  for (;;) {
    RemoteEnd end = turns_.run(side, std::move(call.link), received);
    if (end.kind != RemoteEnd::Kind::broken) return end;
    GANTRY_REMOTE_STEP(link_broken);
    const Deadline patience = Deadline::after(setup_.options.patience);
    for (;;) {
      again.received = side.received();
      auto next = make_call(again, stop_.get(), patience);
      if (next) {
        call = *std::move(next);
        received = call.answer.received;
        GANTRY_REMOTE_STEP(link_renewed);
        break;
      }
      const Code code = next.error().code;
      if (code == Code::closed || code == Code::unsupported)
        return {RemoteEnd::Kind::over, std::move(next).error()};
      const bool is_refused = code == Code::permission_denied || code == Code::peer_misbehaved;
      if (is_refused) {  // it knows more than a link that broke
        end.why.message = next.error().message;
        end.why.hint = next.error().hint;
      }
      const bool is_final = code == Code::interrupted || code == Code::invalid_argument;
      if (is_refused || is_final || patience.passed()) return end;
      sleep_on({stop_.get()}, kBetweenCalls);
    }
  }
}

// The end is one of this process, and of another host's channel to its user.
Error Relay::reason(Error error) const {
  const std::string here = fmt::format("channel '{}'", setup_.name.channel);
  if (error.message.starts_with(here))
    error.message = fmt::format("channel '{}'", text_) + error.message.substr(here.size());
  if (error.code != Code::peer_gone) return error;
  const std::lock_guard lock(mutex_);
  return over_ && over_->code != Code::closed ? *over_ : error;
}

Result<void> Relay::reconnect(Deadline deadline) {
  end_thread();
  GANTRY_TRY(connect(deadline));  // until then what ended the last session is the reason
  {
    const std::lock_guard lock(mutex_);
    over_.reset();
    drain(ended_.get());
  }
  return start();
}

Result<void> Relay::finish(Deadline deadline) {
  return finish(deadline, setup_.interrupt);
}

Result<void> Relay::finish(Deadline deadline, int interrupt) {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (over_ && over_->code == Code::closed) return {};
      if (over_) return tl::unexpected(*over_);
    }
    if (is_readable(interrupt))
      return fail(Code::interrupted, fmt::format("channel '{}': interrupted", setup_.name.text()));
    if (deadline.passed())
      return fail(Code::timed_out,
                  fmt::format("channel '{}': not all of it has been received", setup_.name.text()));
    sleep_on({ended_.get(), interrupt}, deadline.left());
  }
}

void Relay::end_thread() noexcept {
  if (!thread_.joinable()) return;
  ring(stop_.get());
  thread_.join();
}

Relay::~Relay() {
  if (!fork_guard_.is_this()) {
    if (thread_.joinable()) disown(std::move(thread_));
    directory_.forget();
    return;
  }
  // What a producer has sent goes on its way even if it is dropped.
  if (has_to_finish()) static_cast<void>(finish(Deadline::after(setup_.options.patience), -1));
  end_thread();
  call_.reset();
  carriers_->await_end();
}

}  // namespace gantry
