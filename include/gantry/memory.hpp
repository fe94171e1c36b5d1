#pragma once  // gantry/memory.hpp: regions of memory, and the pool that hands out blocks of them.

#include <atomic>
#include <chrono>
#include <gantry/memory/registrar.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gantry {

// ---- regions -------------------------------------------------------------------------------

/// The pages with which the kernel maps a region.
enum class PageKind {
  any,          ///< As a request: hugetlb if enough is reserved, else transparent, else plain.
  plain,        ///< The base page, 4 KiB on most machines.
  transparent,  ///< Huge pages by advice, where and when the kernel has them.
  hugetlb,      ///< Huge pages reserved for this (vm.nr_hugepages).
};
[[nodiscard]] GANTRY_API std::string_view to_string(PageKind kind) noexcept;

/// How a region's memory is made.
struct RegionOptions {
  PageKind pages = PageKind::transparent;  ///< What is asked for; see Region::pages().
  int numa_node = -1;  ///< The only node the memory may come from, by the kernel's number. -1: any.
  /// False: memory of this process alone. Many kernels give it huge pages while they give shared
  /// memory none (`gantry doctor` says). For devices and files; not for channels.
  bool shareable = true;
};

/// Memory with an owner. Move-only; unmaps and closes. It is either shared memory behind a sealed
/// memfd, which another process can neither resize nor ever map writable (F_SEAL_FUTURE_WRITE); or
/// memory that cannot be shared: private, or a view of the user's own.
class GANTRY_API Region {
 public:
  /// Makes `size` bytes (rounded up to whole pages), mapped writable here and nowhere else. `name`
  /// shows up in /proc/PID/maps if the region is shareable. Pages appear when touched; see touch().
  /// Errors: `too_large`, `out_of_memory`, `unsupported` for pages or a node that this machine does
  /// not have.
  [[nodiscard]] static Result<Region> create(Bytes size, std::string_view name,
                                             const RegionOptions& options = {});

  /// Maps a descriptor from another process, read-only and whole. Takes ownership of it, also on
  /// failure. Refuses a descriptor that is not a memfd sealed as create() seals: a peer could
  /// shrink it and every read would be a SIGBUS. Refuses one that does not have `size` bytes,
  /// rounded up to whole pages of any size from 4 to 64 KiB.
  [[nodiscard]] static Result<Region> import(int descriptor, Bytes size);

  /// Makes a region of the user's own memory, which must outlive the region; the region never
  /// unmaps it.
  [[nodiscard]] static Result<Region> over(ByteSpan memory);

  Region() noexcept = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  /// Its first byte.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// Its size.
  [[nodiscard]] Bytes size() const noexcept { return size_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }  ///< -1: not shareable.
  /// Closes the descriptor. The memory stays mapped but can no longer be handed to others.
  void close_descriptor() noexcept;
  /// The pages that were asked for and available. `transparent` is a wish.
  [[nodiscard]] PageKind pages() const noexcept { return pages_; }

  /// Makes [offset, offset+size) present before use, so that no later access faults. Pages of
  /// writable regions are made, by up to `threads` threads on the region's node (0: as many as its
  /// cores, and as the size is worth); pages of imported ones are mapped.
  [[nodiscard]] Result<void> touch(Bytes offset, Bytes size, unsigned threads = 1);

  /// Has the kernel gather pages that are present into huge ones (MADV_COLLAPSE), also where it
  /// gives none at first touch, as many do for shared memory. It copies them: some 2 ms a MiB; for
  /// memory that lives long. Nothing to do for hugetlb. Errors: `unsupported` (Linux before 6.1,
  /// pages that are not there, a region without room for one); `out_of_memory`. Part of it may be
  /// done then.
  [[nodiscard]] Result<void> collapse();

 private:
  void swap(Region& other) noexcept;
  std::byte* data_ = nullptr;
  Bytes size_ = 0;
  int descriptor_ = -1;
  int numa_node_ = -1;
  PageKind pages_ = PageKind::plain;
  bool writable_ = false;
  bool owned_ = false;
};

// ---- the pool ------------------------------------------------------------------------------

class Pool;
class PoolState;  // behind the pool's handles; private
namespace detail {
/// The part of a block's state that its handles read. Private.
struct BlockHead {
  std::byte* data = nullptr;
  std::atomic<Bytes> size{0};  // constant as long as there is a handle
};
}  // namespace detail

/// Names a block's owner in reports and errors. Made by Pool::tag(); a plain number.
struct Tag {
  std::uint32_t number = 0;  ///< 0: untagged.
};

/// How a block lies, and whose it is in reports.
struct BlockOptions {
  /// A power of two. 0: a page for blocks of at least a page, a cache line for smaller ones.
  Bytes alignment = 0;
  Tag tag{};  ///< Pool::tag(); the default is untagged.
  /// If a new slab is needed: memory that the pool has dropped and another process still maps
  /// counts against the budget. Then the error is `out_of_memory`, until that process lets go; see
  /// Pool::charge().
  bool counts_lingering = false;
};

/// A piece of a pool's memory; dropping it gives the memory back. Move-only. May outlive its pool
/// handle.
class GANTRY_API GANTRY_CONSUMABLE(unconsumed) Block {
 public:
  GANTRY_RETURNS(consumed) Block() noexcept = default;
  Block(Block&& other) noexcept : head_(std::exchange(other.head_, nullptr)) {}
  Block& operator=(Block&& other) noexcept {
    detail::BlockHead* const taken = std::exchange(other.head_, nullptr);
    if (head_ != nullptr) give_back();
    head_ = taken;
    return *this;
  }
  ~Block() {
    if (head_ != nullptr) give_back();
  }

  GANTRY_ONLY_WHEN(unconsumed) [[nodiscard]] ByteSpan bytes() const noexcept {
    if (head_ == nullptr) return {};
    return {head_->data, head_->size.load(std::memory_order_relaxed)};
  }
  [[nodiscard]] explicit operator bool() const noexcept { return head_ != nullptr; }
  [[nodiscard]] std::uint32_t slab() const noexcept;  ///< Number of its slab.
  [[nodiscard]] Bytes offset() const noexcept;        ///< Its offset within that slab.

  /// The key by which an operation of `registrar`'s device names this block. Needs no look-up,
  /// since the slab is registered whole; with lazy registration the first call for a slab registers
  /// it. Errors: `invalid_argument` when the pool does not know the registrar, or in a fork()ed
  /// child; the registrar's error when it refused the slab.
  [[nodiscard]] Result<DeviceKey> key_for(const Registrar& registrar) const;

  /// Another handle to the same memory; dropping the last one gives it back. Threads must order
  /// this against the drop of the handle it is called on, as for any object.
  [[nodiscard]] Block share() const noexcept;

  /// True if there are other handles to the memory. After `false` only the caller can change that.
  [[nodiscard]] bool is_shared() const noexcept;

  /// Drops the handle for good: nobody gets the memory again, whoever drops other handles later,
  /// since another process may still read it. Its slab serves nothing new, and is unmapped once all
  /// else in it is free.
  void abandon() noexcept;

  /// Leaves the block alive without a handle; Pool::adopt() finds it again by its address.
  [[nodiscard]] std::byte* detach() noexcept;

  /// True if it was made for a container of PoolResource or PoolAllocator, whether or not that
  /// still exists. Such a block is as large as the container's capacity, or holds several
  /// containers.
  [[nodiscard]] bool is_of_container() const noexcept;

 private:
  friend class PoolState;
  GANTRY_RETURNS(unconsumed) explicit Block(detail::BlockHead& head) noexcept : head_(&head) {}
  void give_back() noexcept;
  // One pointer, so that handing a block on, which is mostly what is done with it, is one load and
  // one store.
  detail::BlockHead* head_ = nullptr;
};

/// When something happens to a slab.
enum class When {
  at_growth,  ///< For a whole slab when it is made.
  on_demand,  ///< For a part when it is first asked for.
};

/// How much a pool may take, in what steps, and who registers it.
struct PoolOptions {
  Bytes slab_bytes = Bytes{64} << 20;  ///< Memory is taken from the system in steps of this.
  Bytes budget_bytes = 0;              ///< Hard limit; 0: four fifths of the machine's memory.
  std::string name = "pool";           ///< Used in errors and reports; 200 characters at most.
  RegionOptions region{};              ///< How slabs are made.
  When touch = When::on_demand;        ///< When pages are made; at the latest for a block.
  std::vector<std::shared_ptr<Registrar>> registrars{};  ///< At most Pool::kMaxRegistrars.
  When registration = When::at_growth;                   ///< on_demand: at the first key_for().
  /// For pools that live long: once its pages are made, which is then at growth, a slab is gathered
  /// into huge ones where the machine gave none: see Region::collapse(). What cannot be had is said
  /// in PoolReport::collapse_errors.
  bool collapse = false;
};

/// The live blocks of one tag.
struct Holder {
  std::string tag;                ///< Empty: untagged.
  Bytes bytes = 0;                ///< Size of these blocks.
  std::uint64_t blocks = 0;       ///< How many there are.
  std::chrono::seconds oldest{};  ///< Age of the oldest by the wall clock, right to a second.
};

/// What a pool holds now, and has done since it was made.
struct GANTRY_API PoolReport {
  Bytes live_bytes = 0;  ///< Bytes in blocks now.
  /// The most bytes ever in blocks. Exact while one thread allocates and frees; else never too low,
  /// and too high by no more than what threads kept for themselves.
  Bytes peak_bytes = 0;
  Bytes slab_bytes = 0;           ///< Bytes taken from the system now.
  Bytes budget_bytes = 0;         ///< The most that `slab_bytes` may be.
  Bytes free_bytes = 0;           ///< Part of slab_bytes that blocks can still be made of.
  Bytes largest_free_bytes = 0;   ///< The largest free piece, before kept ones are joined.
  Bytes kept_bytes = 0;           ///< Part of free_bytes that threads keep until it is needed.
  std::uint64_t slabs = 0;        ///< Slabs that the pool has now.
  std::uint64_t blocks = 0;       ///< Live blocks.
  std::uint64_t allocations = 0;  ///< Allocations ever.
  std::uint64_t reuses = 0;       ///< Allocations served from what the thread had kept.
  std::vector<RegistrarReport> registrars;  ///< Of PoolOptions::registrars, whoever else uses them.
  std::vector<std::string> registration_errors;  ///< One for each refused slab and registrar.
  std::vector<std::string> collapse_errors;      ///< One for each slab that PoolOptions::collapse
                                                 ///< could not gather.
  std::vector<Holder> holders;                   ///< The largest first.
  /// Bytes of slabs that the pool has dropped while another process still maps them; not part of
  /// slab_bytes. See BlockOptions::counts_lingering.
  Bytes lingering_bytes = 0;
  /// The part of the free bytes that the largest free block cannot use, 0 to 1.
  [[nodiscard]] double fragmentation() const noexcept {
    return free_bytes == 0
               ? 0.0
               : 1.0 - static_cast<double>(largest_free_bytes) / static_cast<double>(free_bytes);
  }
};

/// Hands out blocks of any size from a few large regions that are touched once, registered once and
/// kept. A handle, cheap to copy. Thread-safe; threads do not contend as long as what each has kept
/// suffices. docs/mechanisms/memory.md
class GANTRY_API Pool {
 public:
  static constexpr Bytes kPageAlignment = 4096;  ///< Alignment of blocks of at least this size.
  static constexpr Bytes kLineAlignment = 64;    ///< Alignment of smaller blocks.
  /// The most that PoolOptions::registrars may name.
  static constexpr std::size_t kMaxRegistrars = 8;

  /// Makes a pool, which takes memory when it is first asked for some. Errors: `invalid_argument`.
  [[nodiscard]] static Result<Pool> create(const PoolOptions& options = {});

  /// Returns a block of exactly `size` bytes with its pages present. Errors: `invalid_argument` for
  /// 0 bytes, an alignment that is no power of two, and in a fork()ed child; `too_large` above the
  /// budget; `out_of_memory` when live blocks leave no room under it, naming the largest holders.
  [[nodiscard]] Result<Block> allocate(Bytes size, const BlockOptions& options = {});

  /// Returns a tag for blocks; the same name has the same number. Errors: `too_large` past 4096
  /// tags.
  [[nodiscard]] Result<Tag> tag(std::string_view name);

  /// Returns the handle of a detached block. Errors: `invalid_argument` when `data` is not the
  /// beginning of a live block of this pool: it is of another pool, or was given back already.
  [[nodiscard]] Result<Block> adopt(std::byte* data);

  /// Another handle to the block that holds `data`, while one lives. Errors: `invalid_argument`.
  [[nodiscard]] Result<Block> find(const std::byte* data) const;

  /// Drops slabs without a live block; returns their bytes. Memory that another process still maps
  /// goes back to the system when that process lets go.
  Bytes trim();

  /// How it stands now. Any thread.
  [[nodiscard]] PoolReport report() const;

  /// The region behind a live slab, for handing it to another process; null once it is gone.
  [[nodiscard]] std::shared_ptr<const Region> slab(std::uint32_t number) const;

  /// While the result is held, the slab's bytes count as lingering after the pool has dropped the
  /// slab. For callers that let another process map it. Null once the slab is gone.
  [[nodiscard]] std::shared_ptr<const void> charge(std::uint32_t number) const;

  /// Slabs that the pool has dropped so far. Any thread; costs one load.
  [[nodiscard]] std::uint64_t dropped_slabs() const noexcept;

  /// True if slab() can be handed to another process: RegionOptions::shareable.
  [[nodiscard]] bool is_shareable() const noexcept;

  friend bool operator==(const Pool&, const Pool&) = default;
  /// False in a fork()ed child, where handles can only be dropped.
  [[nodiscard]] bool is_of_this_process() const noexcept;
  /// True if `block` is of this pool.
  [[nodiscard]] bool owns(const Block& block) const noexcept;

 private:
  struct Handle;
  explicit Pool(std::shared_ptr<Handle> handle) noexcept : handle_(std::move(handle)) {}
  std::shared_ptr<Handle> handle_;
};

}  // namespace gantry
