#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <gantry/call.hpp>
#include <unordered_map>

#include "core/base/event.hpp"
#include "core/base/moved_from.hpp"
#include "core/base/os/fd.hpp"
#include "core/base/os/fork_error.hpp"
#include "core/base/wait.hpp"

namespace gantry {

// A descriptor stays in the epoll, disarmed by EPOLLONESHOT, until it is closed: waiting for it
// again is one call.
//   I1  A waiting coroutine is in waiting_ or, between the kernel's report and its turn, in ready_.
//   I2  unwatch() takes it out of either: a destroyed coroutine is never resumed.
class GANTRY_LOCAL EventLoop::Impl {
 public:
  Result<void> set_up();
  void spawn(Task<> task);
  void destroy_tasks() noexcept { tasks_.clear(); }  // they unwatch
  Result<void> run();
  void stop() noexcept;
  Result<void> watch(int descriptor, std::coroutine_handle<> waiting);
  void unwatch(int descriptor, std::coroutine_handle<> waiting) noexcept;

 private:
  using WaitStrategy = std::vector<std::coroutine_handle<>>;

  [[nodiscard]] Result<void> arm(int descriptor) const;
  [[nodiscard]] Result<void> wait();
  void resume_ready();
  void forget_done();

  ForkGuard fork_guard_;
  Fd epoll_;
  Fd wake_;
  std::atomic<bool> stopping_{false};
  bool running_ = false;
  std::vector<Task<>> tasks_;
  std::deque<std::coroutine_handle<>> ready_;      // I1
  std::unordered_map<int, WaitStrategy> waiting_;  // I1
};

Result<void> EventLoop::Impl::set_up() {
  GANTRY_ASSIGN(wake_, make_event());
  GANTRY_ASSIGN(epoll_, make_epoll({wake_.get()}));
  return {};
}

void EventLoop::Impl::spawn(Task<> task) {
  if (task.is_done()) return;
  ready_.push_back(task.handle());
  tasks_.push_back(std::move(task));
}

// After closing and opening a number is another file; the kernel knows that, this class does not.
Result<void> EventLoop::Impl::arm(int descriptor) const {
  epoll_event interest{};
  interest.events = EPOLLIN | EPOLLONESHOT;
  interest.data.fd = descriptor;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &interest) == 0) return {};
  if (errno == ENOENT && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &interest) == 0)
    return {};
  return fail_errno("watching a descriptor");
}

Result<void> EventLoop::Impl::watch(int descriptor, std::coroutine_handle<> waiting) {
  if (!fork_guard_.is_this()) return belongs_to_parent("an event loop");
  GANTRY_TRY(arm(descriptor));
  waiting_[descriptor].push_back(waiting);
  return {};
}

void EventLoop::Impl::unwatch(int descriptor, std::coroutine_handle<> waiting) noexcept {
  std::erase(ready_, waiting);  // I2
  const auto found = waiting_.find(descriptor);
  if (found == waiting_.end()) return;
  std::erase(found->second, waiting);
  if (found->second.empty()) waiting_.erase(found);
}

Result<void> EventLoop::Impl::wait() {
  std::array<epoll_event, 64> events;  // NOLINT: filled by the kernel
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
  if (count < 0 && errno != EINTR) return fail_errno("epoll_wait");
  for (std::size_t i = 0; static_cast<int>(i) < count; ++i) {
    if (events[i].data.fd == wake_.get()) {
      drain(wake_.get());
      continue;
    }
    const auto found = waiting_.find(events[i].data.fd);
    if (found == waiting_.end()) continue;
    ready_.insert(ready_.end(), found->second.begin(), found->second.end());
    waiting_.erase(found);
  }
  return {};
}

void EventLoop::Impl::resume_ready() {
  while (!ready_.empty() && !stopping_.load(std::memory_order_acquire)) {  // [S]
    const auto next = ready_.front();
    ready_.pop_front();
    next.resume();
  }
  forget_done();
}

void EventLoop::Impl::forget_done() {
  std::erase_if(tasks_, [](const auto& task) { return task.is_done(); });
}

Result<void> EventLoop::Impl::run() {
  if (!fork_guard_.is_this()) return belongs_to_parent("an event loop");
  if (running_) return fail(Code::busy, "the event loop is running");
  running_ = true;
  Result<void> result;
  for (;;) {
    resume_ready();
    if (stopping_.exchange(false, std::memory_order_acquire)) break;  // [S]
    if (tasks_.empty()) break;
    result = wait();
    if (!result) break;
  }
  running_ = false;
  return result;
}

void EventLoop::Impl::stop() noexcept {
  stopping_.store(true, std::memory_order_release);  // [S]
  ring(wake_.get());
}

// ---- as its users see it -------------------------------------------------------------------

EventLoop::EventLoop(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
EventLoop::EventLoop(EventLoop&&) noexcept = default;
EventLoop& EventLoop::operator=(EventLoop&&) noexcept = default;
EventLoop::~EventLoop() {
  if (impl_) impl_->destroy_tasks();
}

Result<EventLoop> EventLoop::create() {
  return guarded([&]() -> Result<EventLoop> {
    auto impl = std::make_unique<Impl>();
    GANTRY_TRY(impl->set_up());
    return EventLoop(std::move(impl));
  });
}
void EventLoop::spawn(Task<> task) {
  if (impl_) impl_->spawn(std::move(task));
}
Result<void> EventLoop::run() {
  return guarded_on(impl_, "EventLoop", [&] { return impl_->run(); });
}
void EventLoop::stop() noexcept {
  if (impl_) impl_->stop();
}
Result<void> EventLoop::watch(int descriptor, std::coroutine_handle<> waiting) {
  return guarded_on(impl_, "EventLoop", [&] { return impl_->watch(descriptor, waiting); });
}
void EventLoop::unwatch(int descriptor, std::coroutine_handle<> waiting) noexcept {
  if (impl_) impl_->unwatch(descriptor, waiting);
}

}  // namespace gantry
