#include <sys/syscall.h>
#include <unistd.h>

#include <gantry/memory.hpp>
#include <map>

#include "core/base/os/mapped.hpp"
#include "core/base/os/memlock.hpp"
#include "core/base/sizes.hpp"

namespace gantry {
namespace {

// Calls the kernel directly: sanitizers replace the C library's functions by nothing.
long lock_pages(ByteSpan memory) noexcept {
  return ::syscall(SYS_mlock, memory.data(), memory.size());
}
long unlock_pages(void* at, Bytes size) noexcept {
  return ::syscall(SYS_munlock, at, size);
}

// Locks apply to whole pages and do not nest, but two registrations may share a page at their
// edges, so those pages are counted.
class PageLock final : public Registrar {
 public:
  explicit PageLock(const RegistrarOptions& options) : Registrar("page-lock", options) {}

 protected:
  // A lock is on pages, whoever reads or writes them.
  Result<Keys> do_register(ByteSpan memory, DeviceAccess) override {
    const Pages pages = pages_of(memory);
    auto& first = edges_[pages.first];
    auto& last = edges_[pages.last];
    if (lock_pages(memory) == 0) {
      ++first;
      ++last;
      return Keys{};
    }
    const int error = errno;
    unlock_between(pages);  // mlock() may have come half the way
    for (const std::uintptr_t edge : {pages.first, pages.last}) unlock_unused(edge);
    if (error != ENOMEM && error != EPERM && error != EAGAIN) return fail_errno("mlock", error);
    const std::string what = fmt::format("locking {} bytes", memory.size());
    if (!is_mapped(memory)) return fail(Code::invalid_argument, what + ": not all of it is mapped");
    return fail_memlock(what, error);
  }

  int do_unregister(const Keys&, ByteSpan memory) noexcept override {
    const Pages pages = pages_of(memory);
    int error = unlock_between(pages);
    for (const std::uintptr_t edge : {pages.first, pages.last}) {
      if (const auto found = edges_.find(edge); found != edges_.end()) --found->second;
      if (const int failed = unlock_unused(edge); failed != 0) error = failed;
    }
    return error;
  }

 private:
  struct Pages {
    std::uintptr_t first;
    std::uintptr_t last;
  };
  [[nodiscard]] Pages pages_of(ByteSpan memory) const noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
    return {begin / page_ * page_, (begin + memory.size() - 1) / page_ * page_};
  }
  static void* at(std::uintptr_t address) noexcept {
    return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): page arithmetic
  }
  int unlock_between(Pages pages) const noexcept {
    if (pages.last <= pages.first + page_) return 0;
    const auto begin = pages.first + page_;
    return unlock(begin, pages.last - begin);
  }
  int unlock_unused(std::uintptr_t edge) noexcept {
    const auto found = edges_.find(edge);
    if (found == edges_.end() || found->second != 0) return 0;
    edges_.erase(found);
    return unlock(edge, page_);
  }
  // ENOMEM: part of it is not mapped any more, and so not locked either.
  static int unlock(std::uintptr_t begin, Bytes size) noexcept {
    return unlock_pages(at(begin), size) == 0 || errno == ENOMEM ? 0 : errno;
  }

  const std::uintptr_t page_ = page_bytes();
  std::map<std::uintptr_t, unsigned> edges_;  // first and last pages: registrations in each
};

}  // namespace

Result<std::shared_ptr<Registrar>> make_page_lock_registrar(const RegistrarOptions& options) {
  return guarded(
      [&]() -> Result<std::shared_ptr<Registrar>> { return std::make_shared<PageLock>(options); });
}

}  // namespace gantry
