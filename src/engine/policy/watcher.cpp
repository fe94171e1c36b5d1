#include "engine/policy/watcher.hpp"

#include <sys/epoll.h>

#include <array>

#include "base/disown.hpp"
#include "base/event.hpp"
#include "base/worker_thread.hpp"

namespace gantry {
namespace {

Result<void> watch(int epoll, int event) {
  epoll_event entry{};
  entry.events = EPOLLIN;
  entry.data.fd = event;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, event, &entry) == 0 || errno == EEXIST) return {};
  return fail_errno("watching a lane's event");
}

}  // namespace

EngineWatcher::~EngineWatcher() {
  if (!thread_.joinable()) return;
  if (!fork_guard_.is_this()) {  // its end would be the parent's; the handle of no thread is let go
    disown(std::move(thread_));
    return;
  }
  ring(stop_.get());
  thread_.join();
}

Result<void> EngineWatcher::start() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail_errno("epoll_create1");
  GANTRY_ASSIGN(stop_, make_event());
  GANTRY_TRY(watch(epoll_.get(), stop_.get()));
  GANTRY_ASSIGN(thread_, gantry::start_thread("the thread that watches lanes", [this] { work(); }));
  return {};
}

Result<void> EngineWatcher::add(int event, Watched& target) {
  if (!fork_guard_.is_this()) return fail(Code::closed, "watching lanes: this is a forked child");
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) GANTRY_TRY(start());
  GANTRY_TRY(watch(epoll_.get(), event));
  return guarded([&]() -> Result<void> {
    targets_[event] = &target;
    return {};
  });
}

void EngineWatcher::remove(Watched& target) noexcept {
  if (!fork_guard_.is_this()) return;  // the parent goes on listening
  const std::lock_guard lock(mutex_);
  std::erase_if(targets_, [&](const auto& watched) {
    if (watched.second != &target) return false;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched.first, nullptr);
    return true;
  });
}

// False: it is the descriptor that ends this thread. One that was removed since it rang belongs to
// nobody.
bool EngineWatcher::ring_of(int event) noexcept {
  if (event == stop_.get()) return false;
  const std::lock_guard lock(mutex_);
  const auto found = targets_.find(event);
  if (found == targets_.end()) return true;
  drain(event);
  found->second->look();
  return true;
}

void EngineWatcher::work() noexcept {
  std::array<epoll_event, 16> events{};
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i)
      if (!ring_of(events[static_cast<std::size_t>(i)].data.fd)) return;
  }
}

}  // namespace gantry
