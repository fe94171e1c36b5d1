#include "memory/touch.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/mapped.hpp"
#include "base/numa_nodes.hpp"
#include "base/populate.hpp"
#include "base/result.hpp"
#include "base/worker_thread.hpp"
#include "memory/numa.hpp"

namespace gantry {
namespace {

constexpr Bytes kChunk = Bytes{16} << 20;  // what a thread takes at a time
constexpr Bytes kPerThread = 2 * kChunk;   // a thread for less costs more than it saves

tl::unexpected<Error> refused(ByteSpan memory, int error) {
  const std::string what = fmt::format("making {} bytes resident", memory.size());
  if (!is_mapped(memory)) return fail(Code::invalid_argument, what + ": not all of it is mapped");
  if (error == ENOMEM)
    return fail(Code::out_of_memory, what + ": no memory left", "free memory, or lower the budget");
  if (error == EINVAL || error == EFAULT)
    return fail(Code::invalid_argument, what + ": not all of it can be written");
  return fail_errno(what, error);
}

class Touching {
 public:
  Touching(ByteSpan memory, bool writable) : memory_(memory), writable_(writable) {}

  void run() noexcept {
    for (;;) {
      const Bytes from = next_.fetch_add(kChunk, std::memory_order_relaxed);
      if (from >= memory_.size() || error_.load(std::memory_order_relaxed) != 0) return;
      const ByteSpan chunk = memory_.subspan(from, std::min(kChunk, memory_.size() - from));
      const int error = populate(chunk, writable_ ? PageAccess::write : PageAccess::read);
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
    auto helper = start_thread("a thread that touches pages", [&touching, cpu = cpus[i]] {
      bind_this_thread({&cpu, 1});
      touching.run();
    });
    if (!helper) break;  // no more threads for this user, or no memory: the existing threads do it
    helpers.push_back(std::move(*helper));
  }
  touching.run();
  for (std::thread& helper : helpers) helper.join();
  if (touching.error() == 0) return {};
  return refused(memory, touching.error());
}

}  // namespace gantry
