#include "base/bell_tower.hpp"

#include <sys/epoll.h>

#include <array>

#include "base/event.hpp"

namespace gantry {

Result<BellTower> BellTower::make() {
  BellTower tower;
  tower.epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!tower.epoll_) return fail_errno("epoll_create1");
  GANTRY_ASSIGN(tower.event_, make_event());
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.fd = tower.event_.get();
  if (::epoll_ctl(tower.epoll_.get(), EPOLL_CTL_ADD, tower.event_.get(), &interest) != 0)
    return fail_errno("epoll_ctl");
  return tower;
}

void BellTower::ring() const noexcept {
  gantry::ring(event_.get());
}

Result<void> BellTower::hang(Bell& bell) const {
  return bell.hang_in(epoll_.get(), EPOLLIN);
}

// More bells than fit are still readable: the next look finds them.
void BellTower::drain() const noexcept {
  std::array<epoll_event, 64> rung;  // NOLINT: filled by the kernel
  const int count = ::epoll_wait(epoll_.get(), rung.data(), static_cast<int>(rung.size()), 0);
  for (std::size_t i = 0; static_cast<int>(i) < count; ++i) {
    const int descriptor = rung[i].data.fd;
    if (descriptor == event_.get())
      gantry::drain(descriptor);
    else if (!Bell::drain(descriptor))
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  }
}

}  // namespace gantry
