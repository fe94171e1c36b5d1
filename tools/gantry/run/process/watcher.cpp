#include "run/process/watcher.hpp"

#include <errno.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>

#include "errors.hpp"

namespace gantry::run {

Result<Watcher> Watcher::create() {
  Descriptor set(::epoll_create1(EPOLL_CLOEXEC));
  if (!set) return tl::unexpected(cli::system_error("epoll", errno));
  return Watcher(std::move(set));
}

Result<void> Watcher::add(int descriptor, Tag tag) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  if (::epoll_ctl(set_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
    return tl::unexpected(cli::system_error("epoll", errno));
  return {};
}

void Watcher::remove(int descriptor) noexcept {
  ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

std::vector<Watcher::Tag> Watcher::wait(std::chrono::nanoseconds wait) {
  const auto timeout =
      std::chrono::ceil<std::chrono::milliseconds>(std::max(wait, decltype(wait)::zero()));
  const auto bounded = std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(1));
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(set_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(bounded.count()));
  std::vector<Tag> tags;
  for (int i = 0; i < count; ++i) tags.push_back(events[static_cast<std::size_t>(i)].data.u64);
  return tags;
}

}  // namespace gantry::run
