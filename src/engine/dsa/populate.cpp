#include "engine/dsa/populate.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace gantry::dsa {
namespace {

#ifndef MADV_POPULATE_READ  // Linux 5.14; the C library's header may be older
constexpr int MADV_POPULATE_READ = 22;
constexpr int MADV_POPULATE_WRITE = 23;
#endif

}  // namespace

bool populate(ByteSpan range, Access access) noexcept {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<std::uintptr_t>(range.data());
  const std::uintptr_t begin = from / page * page;
  const std::uintptr_t end = (from + range.size() + page - 1) / page * page;
  const int advice = access == Access::write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  int failed = 0;
  do {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): page arithmetic
    failed = ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
  } while (failed != 0 && (errno == EINTR || errno == EAGAIN));
  return failed == 0;
}

}  // namespace gantry::dsa
