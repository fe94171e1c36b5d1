#include "core/channel/wire/acceptor.hpp"

#include <fcntl.h>

#include <algorithm>
#include <new>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/os/close_elsewhere.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/wait.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kWakeKey = 0;
constexpr std::chrono::milliseconds kPause{100};

// What cannot be served for want of memory is still there, and is looked at again.
template <class Serve, class Again>
void without_heap_later(Serve serve, Again look_again) {
  try {
    serve();
  } catch (const std::bad_alloc&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    look_again();
  }
}

}  // namespace

void AcceptWatch::end() noexcept {
  if (const auto acceptor = std::exchange(acceptor_, nullptr))
    acceptor->end_watch(descriptor_, id_);
}

// ---- making and ending ---------------------------------------------------------------------

Result<std::shared_ptr<Acceptor>> make_acceptor() {
  return Acceptor::make();
}

Result<std::shared_ptr<Acceptor>> Acceptor::make() {
  std::shared_ptr<Acceptor> made(new Acceptor);
  GANTRY_ASSIGN(made->epoll_, make_epoll());
  GANTRY_ASSIGN(made->wake_, make_event());
  GANTRY_TRY(watch_in(made->epoll_.get(), made->wake_.get(), {.u64 = kWakeKey}));
  made->keep_spare();
  return made;
}

void Acceptor::keep_spare() noexcept {
  spare_.reset(::fcntl(wake_.get(), F_DUPFD_CLOEXEC, 0));
}

Result<std::shared_ptr<Acceptor>> Acceptor::of(const EndOptions& options) {
  if (options.acceptor != nullptr && options.acceptor->fork_guard_.is_this())
    return options.acceptor;
  return make();
}

// Every handler and watch holds a reference, so none of them is left here.
Acceptor::~Acceptor() {
  if (!fork_guard_.is_this()) {
    static_cast<void>(state_.release());  // NOLINT(bugprone-unused-return-value): not ours to end
    return;
  }
  if (!state_->thread.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  ring(wake_.get());
  state_->thread.join();
}

Result<void> Acceptor::add(AcceptHandler& handler) {
  if (!fork_guard_.is_this())
    return fail(Code::invalid_argument, "an acceptor of the process that this one was forked from",
                "make a Runtime in each process");
  const std::lock_guard lock(state_->mutex);
  if (!state_->thread.joinable()) {
    GANTRY_ASSIGN(state_->thread, start_thread("a thread", [this] { serve(); }));
  }
  state_->roused.reserve(state_->served.size() + 1);
  std::set<std::pair<Time, AcceptHandler*>> time{{Time::max(), &handler}};
  state_->served.try_emplace(&handler);
  state_->times.merge(time);
  return {};
}

// I1, I3
void Acceptor::remove(AcceptHandler& handler) noexcept {
  if (!fork_guard_.is_this()) return;
  std::unique_lock lock(state_->mutex);
  const auto found = state_->served.find(&handler);
  if (found == state_->served.end()) return;
  state_->times.erase({found->second.at, &handler});
  state_->served.erase(found);
  std::erase(state_->roused, &handler);
  forget_listeners(handler);
  if (state_->thread.get_id() == std::this_thread::get_id()) return;
  state_->returned.wait(lock, [&] { return state_->current != &handler; });
}

// ---- what is watched -----------------------------------------------------------------------

Result<void> Acceptor::arm(int descriptor, const Watched& watched, int operation) const {
  epoll_event interest{};
  interest.events = EPOLLIN | (watched.tell == Tell::once ? EPOLLONESHOT : 0u);
  interest.data.u64 = watched.key;
  if (::epoll_ctl(epoll_.get(), operation, descriptor, &interest) == 0) return {};
  if (errno == ENOSPC)
    return fail(Code::system, "this user watches as many descriptors as it may",
                "raise fs.epoll.max_user_watches");
  return fail_errno("epoll_ctl");
}

Result<AcceptWatch> Acceptor::watch(AcceptHandler& handler, int descriptor, std::uint64_t token,
                                    Tell tell) {
  const std::lock_guard lock(state_->mutex);
  State& state = *state_;
  const std::uint64_t id = ++state.last_id;
  const auto [at, is_new] = state.watched.try_emplace(descriptor);
  if (is_new) {
    at->second.key = id;
    at->second.tell = tell;
  }
  // A watch that tells once is armed anew: it may have told the others.
  const bool must_arm = is_new || tell == Tell::once;
  const auto armed = must_arm ? arm(descriptor, at->second, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD)
                              : Result<void>();
  if (!armed) {
    if (is_new) state.watched.erase(at);
    return tl::unexpected(armed.error());
  }
  if (is_new) state.descriptors[id] = descriptor;
  at->second.listeners.push_back({id, &handler, token});
  return AcceptWatch(shared_from_this(), descriptor, id);
}

void Acceptor::end_watch(int descriptor, std::uint64_t id) noexcept {
  if (!fork_guard_.is_this()) return;
  const std::lock_guard lock(state_->mutex);
  const auto at = state_->watched.find(descriptor);
  if (at == state_->watched.end()) return;
  std::erase_if(at->second.listeners, [id](const Listener& one) { return one.id == id; });
  drop_if_unheard(at);
}

void Acceptor::drop_if_unheard(std::unordered_map<int, Watched>::iterator at) noexcept {
  if (!at->second.listeners.empty()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, at->first, nullptr);
  state_->descriptors.erase(at->second.key);
  state_->watched.erase(at);
}

void Acceptor::forget_listeners(const AcceptHandler& handler) noexcept {
  for (auto at = state_->watched.begin(); at != state_->watched.end();) {
    const auto next = std::next(at);
    std::erase_if(at->second.listeners,
                  [&handler](const Listener& one) { return one.handler == &handler; });
    drop_if_unheard(at);
    at = next;
  }
}

void Acceptor::rouse(AcceptHandler& handler) noexcept {
  if (!fork_guard_.is_this()) return;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->served.find(&handler);
    if (found == state_->served.end() || std::exchange(found->second.is_roused, true)) return;
    state_->roused.push_back(&handler);
  }
  ring(wake_.get());
}

void Acceptor::wake_at(AcceptHandler& handler, Deadline when) noexcept {
  if (!fork_guard_.is_this()) return;
  const Time at = when.is_never() ? Time::max() : Deadline::Clock::now() + when.left();
  bool is_first = false;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->served.find(&handler);
    if (found == state_->served.end() || found->second.at == at) return;
    set_time(handler, found->second, at);
    is_first = at != Time::max() && state_->times.begin()->second == &handler;
  }
  if (is_first && state_->thread.get_id() != std::this_thread::get_id()) ring(wake_.get());
}

void Acceptor::set_time(AcceptHandler& handler, Served& served, Time at) noexcept {
  auto entry = state_->times.extract({std::exchange(served.at, at), &handler});
  if (entry.empty()) return;  // for the compiler only: a served handler has an entry
  entry.value().first = at;
  state_->times.insert(std::move(entry));
}

SharedFd Acceptor::share(Fd pidfd) {
  const std::uint64_t process = pidfd ? process_of(pidfd.get()) : 0;
  if (process == 0 || !fork_guard_.is_this()) return SharedFd(std::move(pidfd));
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->pidfds, [](const auto& entry) { return entry.second.expired(); });
  auto& known = state_->pidfds[process];
  if (auto held = known.lock()) return SharedFd(std::move(held));
  SharedFd shared(std::move(pidfd));
  known = shared.owner();
  return shared;
}

// After the borrower has dropped its copies it can ring the event no more.
Result<SharedFd> Acceptor::lend_event() {
  const std::lock_guard lock(state_->mutex);
  for (const SharedFd& event : state_->events)
    if (event.owner().use_count() == 1) return event;
  GANTRY_ASSIGN(Fd made, make_event());
  return state_->events.emplace_back(std::move(made));
}

// ---- the thread ----------------------------------------------------------------------------

void Acceptor::serve() {
  std::array<epoll_event, 64> events;  // NOLINT: filled by the kernel
  for (;;) {
    const int count = wait(events);
    for (std::size_t i = 0; static_cast<int>(i) < count; ++i)
      without_heap_later([&] { deliver(events[i].data.u64); },
                         [&] { look_again(events[i].data.u64); });
    without_heap_later([this] { deliver_roused(); }, [] {});  // all of them are still due
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping) return;
  }
}

// I4. What a stranger sent may wait to be closed until a thread can be started.
int Acceptor::wait(std::span<epoll_event> events) {
  int timeout = timeout_ms();
  if (!close_what_waits() && (timeout < 0 || timeout > kPause.count()))
    timeout = static_cast<int>(kPause.count());
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
  if (count >= 0 || errno == EINTR) return count;
  std::this_thread::sleep_for(kPause);
  return 0;
}

int Acceptor::timeout_ms() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->roused.empty()) return 0;
  if (state_->times.empty() || state_->times.begin()->first == Time::max()) return -1;
  const auto left = state_->times.begin()->first - Deadline::Clock::now();
  return poll_timeout_ms(Deadline::after(std::max(left, Deadline::Clock::duration::zero())));
}

void Acceptor::deliver(std::uint64_t key) {
  if (key == kWakeKey) return drain(wake_.get());
  int descriptor = -1;
  std::vector<Listener> listeners;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->descriptors.find(key);
    if (found == state_->descriptors.end()) return;  // it was ended meanwhile
    descriptor = found->second;
    listeners = state_->watched[descriptor].listeners;
  }
  for (const Listener& one : listeners) {
    if (!begin(*one.handler, descriptor, one.id)) continue;
    without_heap_later([&one] { one.handler->ready(one.token); }, [&] { look_again(key); });
    finish();
  }
}

// A watch that tells once has told.
void Acceptor::look_again(std::uint64_t key) noexcept {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->descriptors.find(key);
  if (found == state_->descriptors.end()) return;
  static_cast<void>(arm(found->second, state_->watched.find(found->second)->second, EPOLL_CTL_MOD));
}

void Acceptor::deliver_roused() {
  for (AcceptHandler* const handler : take_due()) {
    if (!begin(*handler, -1, 0)) continue;
    without_heap_later([handler] { handler->roused(); }, [&] { rouse(*handler); });
    finish();
  }
}

std::vector<AcceptHandler*> Acceptor::take_due() {
  const std::lock_guard lock(state_->mutex);
  std::vector<AcceptHandler*> due;
  // before anything is taken out, since there may be no heap
  due.reserve(state_->roused.size() + state_->times.size());
  due.assign(state_->roused.begin(), state_->roused.end());
  state_->roused.clear();
  for (AcceptHandler* const handler : due) state_->served[handler].is_roused = false;
  const Time now = Deadline::Clock::now();
  while (!state_->times.empty() && state_->times.begin()->first <= now) {
    AcceptHandler* const handler = state_->times.begin()->second;
    set_time(*handler, state_->served[handler], Time::max());
    if (std::find(due.begin(), due.end(), handler) == due.end()) due.push_back(handler);
  }
  return due;
}

// I1: the handler may have been removed, and the watch ended, since they were looked up.
bool Acceptor::begin(AcceptHandler& handler, int descriptor, std::uint64_t id) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->served.contains(&handler)) return false;
  if (descriptor >= 0) {
    const auto at = state_->watched.find(descriptor);
    if (at == state_->watched.end()) return false;
    const auto& listeners = at->second.listeners;
    if (std::none_of(listeners.begin(), listeners.end(),
                     [id](const Listener& one) { return one.id == id; }))
      return false;
  }
  state_->current = &handler;
  return true;
}

void Acceptor::finish() {
  const std::lock_guard lock(state_->mutex);
  state_->current = nullptr;
  state_->returned.notify_all();
}

}  // namespace gantry
