#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <gantry/memory.hpp>
#include <gantry/runtime.hpp>

#include "core/base/os/fd.hpp"
#include "core/base/os/kernel_constants.hpp"
#include "core/base/os/memfd.hpp"
#include "core/base/os/populate.hpp"
#include "core/base/os/userfaultfd.hpp"
#include "core/base/result.hpp"
#include "core/base/sizes.hpp"

// Newer kernel features that Gantry uses. docs/platforms.md has the same lines with their reasons.
namespace gantry {
namespace {

// Each of these tries the thing itself, since a container may refuse what the kernel has. They
// return 0, or an errno value.

int answer(long result) noexcept {
  return result < 0 ? errno : 0;
}

int try_memfd(unsigned flags) noexcept {
  const Fd memory(::memfd_create("gantry-probe", MFD_CLOEXEC | flags));
  return memory ? 0 : errno;
}
int try_sealed_memory() noexcept {
  return try_memfd(MFD_ALLOW_SEALING);
}
int try_huge_memory() noexcept {
  return try_memfd(MFD_ALLOW_SEALING | MFD_HUGETLB);
}

int try_future_write() noexcept {
  const Fd memory(::memfd_create("gantry-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return memory ? answer(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE)) : errno;
}

int try_pidfd() noexcept {
  const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  return self ? 0 : errno;
}

// Tries `option` at one end of a pair of sockets.
int try_socket_option(int option, bool sets) noexcept {
  std::array<int, 2> pair{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) return errno;
  const Fd left(pair[0]), right(pair[1]);
  int value = 0;
  socklen_t size = sizeof value;
  if (sets) return answer(::setsockopt(pair[0], SOL_SOCKET, option, &value, size));
  const int got = answer(::getsockopt(pair[0], SOL_SOCKET, option, &value, &size));
  if (got == 0) Fd(value).reset();
  return got;
}
int try_peer_pidfd() noexcept {
  return try_socket_option(SO_PEERPIDFD, false);
}
int try_pass_rights() noexcept {
  return try_socket_option(SO_PASSRIGHTS, true);
}

int try_populate() noexcept {
  const auto page = page_bytes();
  void* const at =
      ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return errno;
  const int error = answer(::madvise(at, page, MADV_POPULATE_WRITE));
  ::munmap(at, page);
  return error == 0 && !populating_works() ? EOPNOTSUPP : error;
}

// Of shared memory, which many kernels give no huge pages at first touch.
int try_collapse() noexcept {
  auto region = Region::create(Bytes{4} << 20, "gantry-probe");
  if (!region) return ENOMEM;
  if (!region->touch(0, region->size())) return ENOMEM;
  const auto collapsed = region->collapse();
  if (collapsed) return 0;
  return collapsed.error().code == Code::out_of_memory ? ENOMEM : EINVAL;
}

int try_close_range() noexcept {
  return answer(::syscall(SYS_close_range, ~0u, ~0u, CLOSE_RANGE_CLOEXEC));  // of none
}

int try_membarrier() noexcept {
  const long known = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (known < 0) return errno;
  return (known & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 ? 0 : EINVAL;
}

int try_io_uring() noexcept {
  const long made = ::syscall(SYS_io_uring_setup, 0, nullptr);
  return made < 0 && (errno == EFAULT || errno == EINVAL) ? 0 : answer(made);  // the kernel has it
}

int try_userfaultfd() noexcept {
  const Fd fd = open_userfaultfd();
  if (!fd) return errno;
  return agree_on_userfaults(fd, kUserfaultFeatures) ? 0 : errno;
}

int try_mbind() noexcept {
  const auto page = page_bytes();
  void* const at =
      ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return errno;
  const int error = answer(::syscall(SYS_mbind, at, page, MPOL_DEFAULT, nullptr, 0, 0));
  ::munmap(at, page);
  return error;
}

struct Feature {
  std::string_view name;
  std::string_view since;  // the first Linux that has it
  int (*attempt)() noexcept;
  std::string_view lost;       // without it
  std::string_view mend = {};  // where it is refused; empty: the container's seccomp profile
};

constexpr std::array kFeatures{
    Feature{"memfd_create", "3.17", try_sealed_memory, "no channel can be opened"},
    Feature{"F_SEAL_FUTURE_WRITE", "5.1", try_future_write, "no channel can be opened"},
    Feature{"pidfd_open", "5.3", try_pidfd,
            "gantry run does not start; what a killed process held comes back when its connection "
            "ends, which a descriptor that it left to a child delays"},
    Feature{"close_range", "5.9", try_close_range,
            "stages of gantry run may inherit descriptors that its caller left open"},
    Feature{"MADV_POPULATE", "5.14", try_populate,
            "pages are made one system call each: first use of memory is slower"},
    Feature{"MADV_COLLAPSE", "6.1", try_collapse,
            "pools have huge pages only where the kernel gives them at first touch"},
    Feature{"SO_PEERPIDFD", "6.5", try_peer_pidfd,
            "of a process in another pid namespace only the end of its connection is seen"},
    Feature{"SO_PASSRIGHTS", "6.16", try_pass_rights,
            "descriptors that a stranger sends are received before they are refused"},
    Feature{"membarrier", "4.14", try_membarrier, "locks cost their owners a fence more"},
    Feature{"MFD_HUGETLB", "4.14", try_huge_memory, "no shared memory in reserved huge pages"},
    Feature{"io_uring", "5.19", try_io_uring,
            "files are read and written by threads with pread() and pwrite()"},
    Feature{"mbind", "2.6.7", try_mbind, "memory cannot be bound to a NUMA node"},
    Feature{"userfaultfd", "5.14", try_userfaultfd,
            "a snapshot is loaded whole before it can be used, and no working set is recorded",
            kUserfaultMend},
};

bool is_refused(int error) noexcept {
  return error == EPERM || error == EACCES;
}

EngineStatus look_at(const Feature& feature) {
  const int error = feature.attempt();
  if (error == 0)
    return {std::string(feature.name), true, fmt::format("since Linux {}", feature.since), {}};
  const std::string mend =
      is_refused(error) && !feature.mend.empty() ? std::string(feature.mend)
      : is_refused(error)
          ? fmt::format("allow {} in the container's seccomp profile", feature.name)
          : fmt::format("use Linux {} or newer; a container's seccomp profile may hide it, too",
                        feature.since);
  return {std::string(feature.name), false,
          fmt::format("{}: {}", std::generic_category().message(error), feature.lost), mend};
}

}  // namespace

std::vector<EngineStatus> kernel_features() {
  std::vector<EngineStatus> found;
  for (const Feature& feature : kFeatures) found.push_back(look_at(feature));
  return found;
}

}  // namespace gantry
