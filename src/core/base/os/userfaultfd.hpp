#pragma once  // base/os/userfaultfd.hpp: descriptors that tell of pages that are not there.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/os/fd.hpp"

#ifndef USERFAULTFD_IOC_NEW  // Linux 6.1, newer than the headers
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace gantry {

inline constexpr int kUserfaultFlags = O_CLOEXEC | O_NONBLOCK;
/// What snapshots need: Linux 5.14.
inline constexpr std::uint64_t kUserfaultFeatures =
    UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_EVENT_REMOVE;
inline constexpr const char* kUserfaultMend =
    "sysctl vm.unprivileged_userfaultfd=1, or the right to read and write /dev/userfaultfd, or "
    "CAP_SYS_PTRACE; in a container also a seccomp profile that allows it";

/// By the system call, or else by the device. None: errno is the system call's.
[[nodiscard]] inline Fd open_userfaultfd() noexcept {
  Fd fd(static_cast<int>(::syscall(SYS_userfaultfd, kUserfaultFlags)));
  if (fd) return fd;
  const int error = errno;
  const Fd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (device) fd.reset(::ioctl(device.get(), USERFAULTFD_IOC_NEW, kUserfaultFlags));
  errno = error;
  return fd;
}

/// Once for each descriptor. False: errno says why.
[[nodiscard]] inline bool agree_on_userfaults(const Fd& fd, std::uint64_t features) noexcept {
  uffdio_api api{UFFD_API, features, 0};
  return ::ioctl(fd.get(), UFFDIO_API, &api) == 0;
}

}  // namespace gantry
