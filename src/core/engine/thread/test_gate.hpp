#pragma once  // engine/thread/test_gate.hpp: memory in which a reader stops until a test lets it go
              // on.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <gantry/types.hpp>

#include "core/base/os/fd.hpp"

namespace gantry {

/// Bytes of value 1, except in shut pages: a thread that touches such a page stays there until
/// open(), and then finds zeros. Uses userfaultfd(2); is_usable() is false where the kernel has
/// none for us.
class Gate {
 public:
  static constexpr Bytes kPage = 4096;

  explicit Gate(Bytes bytes) : bytes_(bytes) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin_ = static_cast<std::byte*>(at);
    ::madvise(begin_, bytes, MADV_NOHUGEPAGE);
    std::memset(begin_, 1, bytes);
    faults_ = Fd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
    uffdio_api api{UFFD_API, 0, 0};
    if (faults_ && ::ioctl(faults_.get(), UFFDIO_API, &api) != 0) faults_.reset();
  }
  ~Gate() {
    faults_.reset();  // whoever is still there goes on
    ::munmap(begin_, bytes_);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  [[nodiscard]] bool is_usable() const { return static_cast<bool>(faults_); }
  [[nodiscard]] ByteSpan bytes() const { return {begin_, bytes_}; }

  void shut(Bytes offset) const {
    ::madvise(begin_ + offset, kPage, MADV_DONTNEED);
    uffdio_register range{};
    range.range = {address(offset), kPage};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    ::ioctl(faults_.get(), UFFDIO_REGISTER, &range);
  }
  /// Waits until somebody touches a shut page; returns the page's offset.
  [[nodiscard]] Bytes await() const {
    uffd_msg message{};
    if (::read(faults_.get(), &message, sizeof message) != sizeof message) return bytes_;
    return message.arg.pagefault.address / kPage * kPage - address(0);
  }
  void open(Bytes offset) const {
    uffdio_zeropage range{{address(offset), kPage}, 0, 0};
    ::ioctl(faults_.get(), UFFDIO_ZEROPAGE, &range);
  }

 private:
  [[nodiscard]] std::uintptr_t address(Bytes offset) const {
    return reinterpret_cast<std::uintptr_t>(begin_ + offset);
  }

  Bytes bytes_;
  std::byte* begin_ = nullptr;
  Fd faults_;
};

}  // namespace gantry
