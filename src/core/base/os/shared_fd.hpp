#pragma once  // base/os/shared_fd.hpp: a descriptor that several owners hold.

#include <memory>

#include "core/base/os/fd.hpp"

namespace gantry {

/// The last owner closes it. The reference count is atomic; each SharedFd belongs to one thread.
class SharedFd {
 public:
  SharedFd() noexcept = default;
  explicit SharedFd(Fd fd) {
    if (fd) fd_ = std::make_shared<const Fd>(std::move(fd));
  }
  explicit SharedFd(std::shared_ptr<const Fd> fd) noexcept : fd_(std::move(fd)) {}

  [[nodiscard]] int get() const noexcept { return fd_ ? fd_->get() : -1; }
  [[nodiscard]] explicit operator bool() const noexcept { return get() >= 0; }
  void reset() noexcept { fd_.reset(); }
  [[nodiscard]] const std::shared_ptr<const Fd>& owner() const noexcept { return fd_; }

 private:
  std::shared_ptr<const Fd> fd_;
};

}  // namespace gantry
