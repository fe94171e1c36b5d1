#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <gantry/memory.hpp>
#include <utility>
#include <vector>

#include "core/base/enum_text.hpp"
#include "core/base/os/close_elsewhere.hpp"
#include "core/base/os/kernel_constants.hpp"
#include "core/base/os/mapped.hpp"
#include "core/base/os/memfd.hpp"
#include "core/base/os/numa_nodes.hpp"
#include "core/base/os/populate.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/sizes.hpp"

namespace gantry {
namespace {

Bytes whole(Bytes size, Bytes page) noexcept {
  return (size + page - 1) / page * page;
}

// A line "Name:   123 kB" of a file below /proc; 0 when there is none.
Bytes kib_in(const std::string& line, std::string_view name) {
  if (!line.starts_with(name)) return 0;
  return std::strtoull(line.c_str() + name.size(), nullptr, 10) << 10;
}

Bytes read_huge_page_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (const Bytes size = kib_in(line, "Hugepagesize:"); size != 0) return size;
  return 0;
}

Bytes huge_page_bytes() {
  static const Bytes bytes = read_huge_page_bytes();  // the kernel's; it does not change
  return bytes;
}
[[maybe_unused]] const Bytes kHugePagesAtLoad = huge_page_bytes();  // base/os/fork.cpp

// Kernels of one kind of machine may have pages of different sizes (arm64: 4, 16 or 64 KiB), and
// the maker of memory rounds it up to its own.
constexpr Bytes kLargestPage = Bytes{64} << 10;

bool is_rounded_up(Bytes held, Bytes size) noexcept {
  const Bytes page = std::min(held & (~held + 1), kLargestPage);  // the largest that divides it
  return held == size || (page >= kSmallestPage && held > size && held - size < page);
}

struct Mapped {
  Fd memory;
  std::byte* data;
  Bytes size;
};

// `flags`: MAP_SHARED with a descriptor, or MAP_PRIVATE | MAP_ANONYMOUS without.
Result<Mapped> map(Fd memory, Bytes size, int protection, int flags = MAP_SHARED) {
  void* at = ::mmap(nullptr, size, protection, flags, memory.get(), 0);
  if (at == MAP_FAILED)
    return fail_errno(fmt::format("mapping {} bytes", size), errno,
                      errno == ENOMEM ? "free memory, or raise the limit (ulimit -v)" : "");
  return Mapped{std::move(memory), static_cast<std::byte*>(at), size};
}

constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;

// Private memory that begins where a huge page may, if it is large enough to hold one. Not every
// kernel sees to that by itself.
Result<Mapped> map_aligned(Bytes size, Bytes huge) {
  if (huge == 0 || size < huge) return map(Fd(), size, PROT_READ | PROT_WRITE, kPrivate);
  GANTRY_ASSIGN(Mapped mapped, map(Fd(), size + huge, PROT_READ | PROT_WRITE, kPrivate));
  const auto at = reinterpret_cast<std::uintptr_t>(mapped.data);
  const Bytes before = whole(at, huge) - at;
  if (before > 0) ::munmap(mapped.data, before);
  ::munmap(mapped.data + before + size, huge - before);
  mapped.data += before;
  mapped.size = size;
  return mapped;
}

// Shared memory that begins where a huge page may, or elsewhere if that cannot be had: only there
// can the kernel map its pages as huge ones, however it came by them.
Result<Mapped> map_shared(Fd memory, Bytes size, int protection) {
  const Bytes huge = huge_page_bytes();
  if (huge == 0 || size < huge) return map(std::move(memory), size, protection);
  auto room = map(Fd(), size + huge, PROT_NONE, kPrivate | MAP_NORESERVE);
  if (!room) return map(std::move(memory), size, protection);
  const auto at = reinterpret_cast<std::uintptr_t>(room->data);
  std::byte* const begin = room->data + (whole(at, huge) - at);
  const bool is_mapped =
      ::mmap(begin, size, protection, MAP_SHARED | MAP_FIXED, memory.get(), 0) != MAP_FAILED;
  if (!is_mapped) {
    ::munmap(room->data, room->size);
    return map(std::move(memory), size, protection);
  }
  if (begin != room->data) ::munmap(room->data, static_cast<Bytes>(begin - room->data));
  if (const Bytes behind = static_cast<Bytes>(room->data + room->size - (begin + size)))
    ::munmap(begin + size, behind);
  return Mapped{std::move(memory), begin, size};
}

// Reserved huge pages or an error: mapping takes the reservation, so no later touch can fail.
Result<Mapped> map_hugetlb(Bytes size, std::string_view name, bool shareable) {
  const Bytes page = huge_page_bytes();
  if (page == 0) return fail(Code::unsupported, "huge pages: this kernel has none");
  Fd memory;
  if (shareable) {
    GANTRY_ASSIGN(memory, make_memfd(name, whole(size, page), MFD_HUGETLB));
  }
  auto mapped = map(std::move(memory), whole(size, page), PROT_READ | PROT_WRITE,
                    shareable ? MAP_SHARED : kPrivate | MAP_HUGETLB);
  if (mapped) return mapped;
  return fail(Code::out_of_memory,
              fmt::format("{} bytes in huge pages of {}: not enough are reserved", size, page),
              fmt::format("reserve {} more (sysctl vm.nr_hugepages), or ask for PageKind::any",
                          whole(size, page) / page));
}

Result<Mapped> map_plain(Bytes size, std::string_view name, bool shareable) {
  if (!shareable) return map_aligned(whole(size, page_bytes()), huge_page_bytes());
  GANTRY_ASSIGN(Fd memory, make_memfd(name, whole(size, page_bytes())));
  return map_shared(std::move(memory), whole(size, page_bytes()), PROT_READ | PROT_WRITE);
}

// ---- NUMA nodes ----------------------------------------------------------------------------

// The cores of `node`; nothing when there is no such node.
const NodeCpus* find(const std::vector<NodeCpus>& nodes, int node) {
  const auto found = std::ranges::find(nodes, node, &NodeCpus::node);
  return found == nodes.end() ? nullptr : &*found;
}

long bind(ByteSpan memory, int node) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  const auto bit = static_cast<std::size_t>(node);
  std::vector<unsigned long> mask(bit / kBits + 1);
  mask[bit / kBits] = 1UL << bit % kBits;
  // The kernel looks at one bit fewer than it is told.
  return ::syscall(SYS_mbind, memory.data(), memory.size(), MPOL_BIND, mask.data(),
                   mask.size() * kBits + 1, 0);
}

/// Binds pages that are made from now on to `node` (the kernel's number). Errors: `unsupported`
/// when there is no such node, or the kernel does not bind.
Result<void> bind_to_node(ByteSpan memory, int node) {
  if (find(numa_nodes(), node) == nullptr)
    return fail(Code::unsupported, fmt::format("NUMA node {}: this machine has none", node),
                "ls /sys/devices/system/node lists the nodes");
  if (bind(memory, node) == 0) return {};
  return fail(Code::unsupported,
              fmt::format("NUMA node {}: the kernel does not bind memory to it: {}", node,
                          std::generic_category().message(errno)));
}

/// The CPUs of `node` that this process may use; of all nodes for -1. Empty when unknown.
std::vector<int> cpus_of_node(int node) {
  std::vector<int> cpus = allowed_cpus();
  if (node < 0) return cpus;
  const std::vector<NodeCpus> nodes = numa_nodes();
  const NodeCpus* const wanted = find(nodes, node);
  if (wanted == nullptr) return cpus;
  std::erase_if(cpus, [&](int cpu) { return std::ranges::count(wanted->cpus, cpu) == 0; });
  return cpus;
}

// ---- touching ------------------------------------------------------------------------------

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

/// Makes every page of `memory` present; `memory` begins at a page. Writable pages are made, others
/// mapped. Uses up to `threads` threads on the cores of `node` (-1: any); 0: as many as those cores
/// and the size are worth. Errors: `out_of_memory`.
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

}  // namespace

std::string_view to_string(PageKind kind) noexcept {
  return text_in({"any", "plain", "transparent", "hugetlb"}, kind);
}

Result<Region> Region::create(Bytes size, std::string_view name, const RegionOptions& options) {
  return guarded([&]() -> Result<Region> {
    if (size == 0) return fail(Code::invalid_argument, "a region of 0 bytes");
    if (size > static_cast<Bytes>(PTRDIFF_MAX) / 2)
      return fail(Code::too_large, fmt::format("a region of {} bytes: no machine has that", size));
    Region region;
    const bool tries_hugetlb = options.pages == PageKind::any || options.pages == PageKind::hugetlb;
    auto mapped = tries_hugetlb ? map_hugetlb(size, name, options.shareable)
                                : map_plain(size, name, options.shareable);
    region.pages_ = tries_hugetlb ? PageKind::hugetlb : options.pages;
    if (!mapped && options.pages == PageKind::any) {
      mapped = map_plain(size, name, options.shareable);
      region.pages_ = PageKind::transparent;
    }
    if (!mapped) return tl::unexpected(std::move(mapped).error());
    const int descriptor = mapped->memory.get();
    region.data_ = mapped->data;
    region.size_ = mapped->size;
    region.owned_ = region.writable_ = true;
    region.descriptor_ = mapped->memory.release();
    // Where shared memory has no transparent huge pages at all, it gets plain ones.
    if (region.pages_ == PageKind::transparent &&
        ::madvise(region.data_, region.size_, MADV_HUGEPAGE) != 0)
      region.pages_ = PageKind::plain;
    if (options.numa_node >= 0) {
      GANTRY_TRY(bind_to_node({region.data_, region.size_}, options.numa_node));
      region.numa_node_ = options.numa_node;
    }
    // After our own mapping: F_SEAL_FUTURE_WRITE leaves that one writable and forbids others.
    if (options.shareable) GANTRY_TRY(seal(descriptor, kSizeSeals | F_SEAL_FUTURE_WRITE));
    return region;
  });
}

Result<Region> Region::import(int descriptor, Bytes size) {
  ReceivedFd memory{Fd(descriptor)};  // it may be anything
  return guarded([&]() -> Result<Region> {
    // F_SEAL_FUTURE_WRITE is checked, too: without it the maker can punch holes, and pages that are
    // gone may not come back when they are read (huge ones), which is a signal.
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
    GANTRY_ASSIGN(const Bytes held, check_sealed(memory.get(), kSeals));
    if (!is_rounded_up(held, size)) return wrong_size(size, held);
    GANTRY_ASSIGN(Mapped mapped, map_shared(memory.take(), held, PROT_READ));
    ::madvise(mapped.data, held, MADV_HUGEPAGE);
    Region region;
    region.data_ = mapped.data;
    region.size_ = held;
    region.owned_ = true;
    region.descriptor_ = mapped.memory.release();
    return region;
  });
}

Result<Region> Region::over(ByteSpan memory) {
  if (memory.empty()) return fail(Code::invalid_argument, "a region over 0 bytes");
  Region region;
  region.data_ = memory.data();
  region.size_ = memory.size();
  region.writable_ = true;
  return region;
}

Region::Region(Region&& other) noexcept {
  swap(other);
}

Region& Region::operator=(Region&& other) noexcept {
  Region taken(std::move(other));  // its end is the end of what this was
  swap(taken);
  return *this;
}

void Region::swap(Region& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(numa_node_, other.numa_node_);
  std::swap(pages_, other.pages_);
  std::swap(writable_, other.writable_);
  std::swap(owned_, other.owned_);
}

// Closing the last descriptor of unmapped memory frees its pages.
Region::~Region() {
  if (owned_ && data_ != nullptr) ::munmap(data_, size_);
  if (writable_)
    close_descriptor();
  else
    const ReceivedFd another_process_made_it{Fd(std::exchange(descriptor_, -1))};
}

void Region::close_descriptor() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Result<void> Region::touch(Bytes offset, Bytes size, unsigned threads) {
  return guarded([&]() -> Result<void> {
    if (offset > size_ || size > size_ - offset)
      return fail(Code::invalid_argument, fmt::format("touching bytes {} to {} of a region of {}",
                                                      offset, offset + size, size_));
    // From the page's beginning, which in a user's own memory may lie before ours.
    const Bytes from = owned_ ? offset : reinterpret_cast<std::uintptr_t>(data_ + offset);
    const Bytes lead = from % page_bytes();
    return touch_pages({data_ + offset - lead, size + lead}, writable_, threads, numa_node_);
  });
}

// It is asked for whole huge pages within the region: of a part of one the kernel wants nothing.
Result<void> Region::collapse() {
  const Bytes huge = huge_page_bytes();
  if (pages_ == PageKind::hugetlb || data_ == nullptr) return {};
  const auto at = reinterpret_cast<std::uintptr_t>(data_);
  const Bytes before = huge == 0 ? 0 : whole(at, huge) - at;
  if (huge == 0 || size_ < before + huge)
    return fail(Code::unsupported,
                fmt::format("gathering {} bytes in huge pages: there is room for none", size_),
                "use larger regions");
  const Bytes pages = (size_ - before) / huge * huge;
  if (::madvise(data_ + before, pages, MADV_COLLAPSE) == 0) return {};
  const int error = errno;
  const std::string what = fmt::format("gathering {} bytes in huge pages", pages);
  if (error == ENOMEM || error == EAGAIN || error == EBUSY)
    return fail(Code::out_of_memory,
                fmt::format("{}: {}", what, std::generic_category().message(error)),
                "the machine has no free memory in whole huge pages now: reserve some at its start "
                "(PageKind::hugetlb)");
  return fail(Code::unsupported,
              fmt::format("{}: {}", what, std::generic_category().message(error)),
              "use Linux 6.1 or newer, and make the pages present first (touch())");
}

}  // namespace gantry
