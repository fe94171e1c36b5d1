// REAP's way (Ustiugov et al., ASPLOS 2021): the working set's pages lie in one file, are read past
// the page cache and made in the memory; what else is touched is read on demand.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "../../support/system/cpus.hpp"
#include "../../support/system/mapping.hpp"
#include "../files.hpp"
#include "restorers.hpp"

#ifndef USERFAULTFD_IOC_NEW  // Linux 6.1
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace gantry::bench {
namespace {

constexpr Bytes kAround = Bytes{64} << 10;  // what is read for a page that is touched on demand

/// By the call or by the device, whichever may be used.
Descriptor open_userfaultfd() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  Descriptor faults(static_cast<int>(::syscall(SYS_userfaultfd, kFlags | UFFD_USER_MODE_ONLY)));
  if (faults.is_open()) return faults;
  const Descriptor device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  return Descriptor(::ioctl(device.get(), USERFAULTFD_IOC_NEW, kFlags));
}

/// Memory whose pages come from a file, through the page cache, when they are touched; or before,
/// by copy(). Any thread may call that.
class DemandMemory {
 public:
  ~DemandMemory() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    static_cast<void>(write_all(stop_.get(), std::as_bytes(std::span(&one, 1))));
    thread_.join();
  }

  Result<void> open(const std::string& path, Bytes bytes) {
    auto memory = Mapping::untouched(bytes);
    if (!memory) return Unexpected(memory.error());
    memory_ = *std::move(memory);
    auto file = open_to_read(path);
    if (!file) return Unexpected(file.error());
    file_ = *std::move(file);
    stop_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
    faults_ = open_userfaultfd();
    uffdio_api api{UFFD_API, 0, 0};
    uffdio_register request{range(), UFFDIO_REGISTER_MODE_MISSING, 0};
    if (!stop_.is_open() || ::ioctl(faults_.get(), UFFDIO_API, &api) != 0 ||
        ::ioctl(faults_.get(), UFFDIO_REGISTER, &request) != 0)
      return Unexpected(system_error("userfaultfd"));
    thread_ = std::thread([this] { serve(); });
    return {};
  }

  /// Makes pages, but for those that are there.
  Result<void> copy(Bytes to, ConstByteSpan from) {
    while (!from.empty()) {
      uffdio_copy request{address(to), reinterpret_cast<std::uintptr_t>(from.data()), from.size(),
                          0, 0};
      Bytes done = from.size();
      if (::ioctl(faults_.get(), UFFDIO_COPY, &request) != 0) {
        if (request.copy <= 0 && errno != EEXIST && errno != EAGAIN)
          return Unexpected(system_error("UFFDIO_COPY"));
        done = request.copy > 0 ? static_cast<Bytes>(request.copy) : errno == EEXIST ? kPage : 0;
      }
      to += done;
      from = from.subspan(done);
    }
    return {};
  }
  ConstByteSpan bytes() const { return memory_.bytes(); }

 private:
  std::uint64_t address(Bytes at) const {
    return reinterpret_cast<std::uintptr_t>(memory_.bytes().data()) + at;
  }
  uffdio_range range() const { return {address(0), memory_.bytes().size()}; }

  /// Until it is told to stop. If it fails, all that is not there is zero, which the sums tell.
  void serve() {
    std::array waiting{pollfd{faults_.get(), POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
    while (::poll(waiting.data(), waiting.size(), -1) < 0 || waiting[1].revents == 0) {
      uffd_msg message{};
      if (::read(faults_.get(), &message, sizeof message) != sizeof message) continue;
      if (message.event == UFFD_EVENT_PAGEFAULT && bring(message.arg.pagefault.address)) continue;
      uffdio_range all = range();
      ::ioctl(faults_.get(), UFFDIO_UNREGISTER, &all);
      ::ioctl(faults_.get(), UFFDIO_WAKE, &all);
    }
  }

  bool bring(std::uint64_t touched) {
    const Bytes at = (touched - address(0)) / kAround * kAround;
    const ByteSpan into = ByteSpan(around_).first(std::min(kAround, memory_.bytes().size() - at));
    return read_at(file_, at, into) && copy(at, into);
  }

  Mapping memory_;
  Descriptor file_;
  Descriptor faults_;
  Descriptor stop_;
  std::array<std::byte, kAround> around_{};
  std::thread thread_;
};

class ReapRestorer : public Restorer {
 public:
  ReapRestorer(const SavedMemory& saved, const DirectReads& reads) : saved_(saved), reads_(reads) {}

  Result<void> begin() override {
    if (auto open = memory_.open(saved_.path(MemoryFile::raw), saved_.bytes()); !open) return open;
    return bring_working_set();
  }
  const std::byte* working_page(std::size_t index) const override {
    return memory_.bytes().data() + saved_.working_set()[index] * kPage;
  }
  ConstByteSpan memory() const override { return memory_.bytes(); }

 protected:
  virtual Result<void> bring_working_set() = 0;

  std::size_t parts(Bytes each) const { return (saved_.working_set_bytes() + each - 1) / each; }
  /// Of the file's part number `part`.
  Bytes bytes_of(Bytes each, std::size_t part) const {
    return std::min(each, saved_.working_set_bytes() - part * each);
  }
  /// Copies bytes of the working set from number `at` on, pages that follow each other at once.
  Result<void> copy(Bytes at, ConstByteSpan bytes) {
    const auto pages = saved_.working_set().subspan(at / kPage, bytes.size() / kPage);
    for (std::size_t i = 0, end = 0; i < pages.size(); i = end) {
      for (end = i + 1; end < pages.size() && pages[end] == pages[end - 1] + 1;) ++end;
      const auto run = bytes.subspan(i * kPage, (end - i) * kPage);
      if (auto copied = memory_.copy(pages[i] * kPage, run); !copied) return copied;
    }
    return {};
  }

  const SavedMemory& saved_;
  const DirectReads reads_;

 private:
  DemandMemory memory_;
};

/// Reads all of it, then copies, a thread a CPU.
class WholeReap final : public ReapRestorer {
  using ReapRestorer::ReapRestorer;

  Result<void> bring_working_set() override {
    constexpr Bytes kCopied = Bytes{1} << 20;
    const auto cpus = allowed_cpus();
    if (!cpus) return Unexpected(cpus.error());
    auto buffer = fresh_memory(saved_.working_set_bytes());
    if (!buffer) return Unexpected(buffer.error());
    const ByteSpan bytes(buffer->data(), saved_.working_set_bytes());
    const std::string path = saved_.path(MemoryFile::working_set);
    if (auto read = read_directly(path, reads_, bytes); !read) return read;
    return share_out(cpus->size(), parts(kCopied), [&](std::size_t, std::size_t part) {
      return copy(part * kCopied, bytes.subspan(part * kCopied, bytes_of(kCopied, part)));
    });
  }
};

/// Each of the threads that read copies what it has read.
class OverlappedReap final : public ReapRestorer {
  using ReapRestorer::ReapRestorer;

  Result<void> bring_working_set() override {
    const auto file = open_to_read(saved_.path(MemoryFile::working_set), O_DIRECT);
    if (!file) return Unexpected(file.error());
    const std::size_t threads = std::min<std::size_t>(reads_.depth, parts(reads_.bytes));
    auto buffers = fresh_memory(threads * reads_.bytes);
    if (!buffers) return Unexpected(buffers.error());
    return share_out(threads, parts(reads_.bytes), [&](std::size_t thread, std::size_t part) {
      const ByteSpan buffer(buffers->data() + thread * reads_.bytes, bytes_of(reads_.bytes, part));
      if (auto read = read_at(*file, part * reads_.bytes, buffer); !read) return read;
      return copy(part * reads_.bytes, buffer);
    });
  }
};

}  // namespace

std::unique_ptr<Restorer> make_reap(const SavedMemory& saved, const DirectReads& reads) {
  return std::make_unique<WholeReap>(saved, reads);
}

std::unique_ptr<Restorer> make_overlapped_reap(const SavedMemory& saved, const DirectReads& reads) {
  return std::make_unique<OverlappedReap>(saved, reads);
}

}  // namespace gantry::bench
