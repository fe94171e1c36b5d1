#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gantry/registrar.hpp>
#include <map>

#include "base/result.hpp"

namespace gantry {
namespace {

std::string limit_text() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return fmt::format("{} KiB", limit.rlim_cur >> 10);
}

// Locks are of whole pages and do not nest, but two registrations may share a page at their edges:
// those are counted.
class PageLock final : public Registrar {
 public:
  explicit PageLock(const RegistrarOptions& options) : Registrar("page-lock", options) {}

 protected:
  Result<Keys> do_register(ByteSpan memory) override {
    const Pages pages = pages_of(memory);
    auto& first = edges_[pages.first];
    auto& last = edges_[pages.last];
    if (::mlock(memory.data(), memory.size()) == 0) {
      ++first;
      ++last;
      return Keys{};
    }
    const int error = errno;
    if (first == 0) edges_.erase(pages.first);
    if (pages.last != pages.first && last == 0) edges_.erase(pages.last);
    unlock_between(pages);  // mlock() may have come half the way
    if (error != ENOMEM && error != EPERM && error != EAGAIN) return fail_errno("mlock", error);
    return fail(Code::out_of_memory,
                fmt::format("locking {} bytes: the limit of locked memory is {}", memory.size(),
                            limit_text()),
                "raise it: ulimit -l, LimitMEMLOCK= of the service, or CAP_IPC_LOCK");
  }

  int do_unregister(const Keys&, ByteSpan memory) noexcept override {
    const Pages pages = pages_of(memory);
    int error = unlock_between(pages);
    for (const std::uintptr_t edge : {pages.first, pages.last}) {
      const auto found = edges_.find(edge);
      if (found == edges_.end() || --found->second != 0) continue;
      edges_.erase(found);
      if (::munlock(at(edge), page_) != 0) error = errno;
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
    return ::munlock(at(begin), pages.last - begin) == 0 ? 0 : errno;
  }

  const std::uintptr_t page_ = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  std::map<std::uintptr_t, unsigned> edges_;  // first and last pages: registrations in each
};

}  // namespace

Result<std::shared_ptr<Registrar>> make_page_lock_registrar(const RegistrarOptions& options) {
  return guarded(
      [&]() -> Result<std::shared_ptr<Registrar>> { return std::make_shared<PageLock>(options); });
}

}  // namespace gantry
