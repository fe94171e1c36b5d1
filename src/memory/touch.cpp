#include "memory/touch.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/mapped.hpp"
#include "base/result.hpp"
#include "memory/numa.hpp"

namespace gantry {
namespace {

constexpr Bytes kChunk = Bytes{16} << 20;  // what a thread takes at a time
constexpr Bytes kPerThread = 2 * kChunk;   // a thread for less costs more than it saves

// Before Linux 5.14 there is no such advice: pages then come at first use, one fault each.
bool knows_populate() noexcept {
  static const bool knows = [] {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const at =
        ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    const bool took = ::madvise(at, page, MADV_POPULATE_WRITE) == 0;
    ::munmap(at, page);
    return took;
  }();
  return knows;
}

tl::unexpected<Error> refused(ByteSpan memory, int error) {
  const std::string what = fmt::format("making {} bytes resident", memory.size());
  if (!is_mapped(memory)) return fail(Code::invalid_argument, what + ": not all of it is mapped");
  if (error == ENOMEM)
    return fail(Code::out_of_memory, what + ": no memory left", "free memory, or lower the budget");
  if (error == EINVAL || error == EFAULT)
    return fail(Code::invalid_argument, what + ": not all of it can be written");
  return fail_errno(what, error);
}

int touch_here(ByteSpan memory, bool writable) noexcept {
  const int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  while (::madvise(memory.data(), memory.size(), advice) != 0) {
    if (errno == EINVAL && !knows_populate()) return 0;
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  return 0;
}

class Touching {
 public:
  Touching(ByteSpan memory, bool writable) : memory_(memory), writable_(writable) {}

  void run() noexcept {
    for (;;) {
      const Bytes from = next_.fetch_add(kChunk, std::memory_order_relaxed);
      if (from >= memory_.size() || error_.load(std::memory_order_relaxed) != 0) return;
      const int error =
          touch_here(memory_.subspan(from, std::min(kChunk, memory_.size() - from)), writable_);
      if (error != 0) error_.store(error, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] int error() const noexcept { return error_.load(std::memory_order_relaxed); }

 private:
  ByteSpan memory_;
  bool writable_;
  std::atomic<Bytes> next_{0};
  std::atomic<int> error_{0};
};

void pin_to(std::thread& thread, int cpu) noexcept {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(cpu), &one);
  ::pthread_setaffinity_np(thread.native_handle(), sizeof one, &one);  // a wish
}

}  // namespace

Result<void> touch_pages(ByteSpan memory, bool writable, unsigned threads, int node) {
  Touching touching(memory, writable);
  std::vector<int> cpus;
  if (threads != 1 && memory.size() >= 2 * kPerThread) cpus = cpus_of_node(node);
  std::size_t count = std::max<std::size_t>(memory.size() / kPerThread, 1);
  count = std::min({count, std::max<std::size_t>(cpus.size(), 1),
                    threads == 0 ? cpus.size() + 1 : std::size_t{threads}});
  std::vector<std::thread> helpers;
  helpers.reserve(count);
  for (std::size_t i = 1; i < count; ++i) {
    try {
      helpers.emplace_back([&touching] { touching.run(); });
    } catch (const std::system_error&) {
      break;  // no more threads for this user: the ones there are do it
    }
    pin_to(helpers.back(), cpus[i]);
  }
  touching.run();
  for (std::thread& helper : helpers) helper.join();
  if (touching.error() == 0) return {};
  return refused(memory, touching.error());
}

}  // namespace gantry
