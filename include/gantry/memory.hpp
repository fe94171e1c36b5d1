#pragma once  // gantry/memory.hpp: memory with an identity (regions) and the pool that hands it
              // out.

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

/// What the kernel maps a region with.
enum class PageKind {
  any,          ///< Asking: hugetlb if enough is reserved, else transparent, else plain.
  plain,        ///< The base page, 4 KiB on most machines.
  transparent,  ///< Huge pages by advice, where and when the kernel finds them.
  hugetlb,      ///< Huge pages that were reserved for this (vm.nr_hugepages).
};
[[nodiscard]] GANTRY_API std::string_view to_string(PageKind kind) noexcept;

struct RegionOptions {
  PageKind pages = PageKind::transparent;
  int numa_node = -1;  ///< By the kernel's number; its memory and no other. -1: wherever.
  /// False: memory of this process alone, which many kernels give huge pages while they give
  /// shared memory none (`gantry doctor` says). For devices and files; not for channels.
  bool shareable = true;
};

/// Memory with an identity. Move-only; unmaps and closes. Either shared memory behind a sealed
/// memfd, which another process can neither resize nor (F_SEAL_FUTURE_WRITE) ever map writable; or
/// memory that cannot be shared: private, or a view of the user's own.
class GANTRY_API Region {
 public:
  /// Makes `size` bytes (rounded up to whole pages), mapped writable here and nowhere else.
  /// `name` shows up in /proc/PID/maps if it is shareable. Pages appear when touched; see touch().
  /// Errors: `too_large`, `out_of_memory`, `unsupported` for pages or a node this machine has not.
  [[nodiscard]] static Result<Region> create(Bytes size, std::string_view name,
                                             const RegionOptions& options = {});

  /// Maps a descriptor another process handed over, read-only and whole. Takes ownership of it,
  /// also on failure. Refuses one that is not a memfd sealed as create() seals: a peer could shrink
  /// it and every read would be a SIGBUS. Refuses one that is not of `size` bytes, rounded up to
  /// whole pages of any size from 4 to 64 KiB.
  [[nodiscard]] static Result<Region> import(int descriptor, Bytes size);

  /// The user's own memory, which must outlive the region and is never unmapped by it.
  [[nodiscard]] static Result<Region> over(ByteSpan memory);

  Region() noexcept = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] Bytes size() const noexcept { return size_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }  ///< -1: not shareable.
  /// The memory stays as it is, but can be handed to nobody else any more.
  void close_descriptor() noexcept;
  /// What was asked for and could be had. `transparent` is a wish: see huge_bytes().
  [[nodiscard]] PageKind pages() const noexcept { return pages_; }
  /// How many bytes lie in huge pages now; reads /proc/self/smaps, some milliseconds.
  [[nodiscard]] Bytes huge_bytes() const;

  /// Brings [offset, offset+size) in before it is used, so that no later access faults. Writable
  /// regions get their pages made, by up to `threads` threads on the region's node (0: as many as
  /// its cores, and as the size is worth); imported ones get theirs mapped.
  [[nodiscard]] Result<void> touch(Bytes offset, Bytes size, unsigned threads = 1);

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
/// Of what stands behind a block, the part that its handles look at. Private.
struct BlockHead {
  std::byte* data = nullptr;
  std::atomic<Bytes> size{0};  // the same as long as there is a handle
};
}  // namespace detail

/// Whose a block is, in reports and errors. Made by Pool::tag(); a plain number.
struct Tag {
  std::uint32_t number = 0;  ///< 0: untagged.
};

struct BlockOptions {
  /// A power of two. 0: a page for blocks of at least a page, a cache line for smaller ones.
  Bytes alignment = 0;
  Tag tag{};
  /// For a new slab: memory that the pool has dropped and another process still maps counts against
  /// the budget. `out_of_memory` then, and again until that process lets go; see Pool::charge().
  bool counts_lingering = false;
};

/// A piece of a pool's memory; goes back when dropped. Move-only. May outlive its pool handle.
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
  [[nodiscard]] std::uint32_t slab() const noexcept;  ///< Its slab's number.
  [[nodiscard]] Bytes offset() const noexcept;        ///< Within that slab.

  /// What an operation of `registrar`'s device names this block by. No look-up: its slab is
  /// registered whole. With lazy registration the first ask for a slab registers it. Errors:
  /// `invalid_argument` when the pool does not know the registrar, or in a fork()ed child; what
  /// the registrar said when it refused the slab.
  [[nodiscard]] Result<DeviceKey> key_for(const Registrar& registrar) const;

  /// Another handle to the same memory; the last one dropped gives it back. Threads must order
  /// this against the drop of the handle it is called on, as for any object.
  [[nodiscard]] Block share() const noexcept;

  /// There are other handles to it. Of an answer `false` the caller alone can make a `true`.
  [[nodiscard]] bool is_shared() const noexcept;

  /// Drops the handle. Nobody gets the memory again, whoever drops other handles later: another
  /// process may read it. Its slab serves nothing new, and is unmapped once all else in it is free.
  void abandon() noexcept;

  /// Leaves the block alive without a handle; Pool::adopt() finds it again by its address.
  [[nodiscard]] std::byte* detach() noexcept;

 private:
  friend class PoolState;
  GANTRY_RETURNS(unconsumed) explicit Block(detail::BlockHead& head) noexcept : head_(&head) {}
  void give_back() noexcept;
  // One pointer: handing a block on is one load and one store, which is what it mostly is used for.
  detail::BlockHead* head_ = nullptr;
};

enum class When {
  at_growth,  ///< For a whole slab when it is made.
  on_demand,  ///< For what is asked for, when it is first asked for.
};

struct PoolOptions {
  Bytes slab_bytes = Bytes{64} << 20;  ///< Memory is taken from the system in steps of this.
  Bytes budget_bytes = 0;              ///< Hard limit; 0: four fifths of the machine's memory.
  std::string name = "pool";           ///< In errors and reports; 200 characters at most.
  RegionOptions region{};              ///< What slabs are made of.
  When touch = When::on_demand;        ///< Pages are present before a block is handed out, always.
  std::vector<std::shared_ptr<Registrar>> registrars{};  ///< At most Pool::kMaxRegistrars.
  When registration = When::at_growth;                   ///< on_demand: at the first key_for().
};

/// Blocks of one tag that are alive.
struct Holder {
  std::string tag;  ///< Empty: untagged.
  Bytes bytes = 0;
  std::uint64_t blocks = 0;
  std::chrono::seconds oldest{};  ///< Age of the oldest by the wall clock, right to a second.
};

struct GANTRY_API PoolReport {
  Bytes live_bytes = 0;  ///< In blocks now.
  /// The most ever in blocks: exact while one thread allocates and frees; else never too low, and
  /// too high by no more than what threads kept for themselves.
  Bytes peak_bytes = 0;
  Bytes slab_bytes = 0;  ///< Taken from the system now.
  Bytes budget_bytes = 0;
  Bytes free_bytes = 0;          ///< Of slab_bytes, what blocks can still be made of.
  Bytes largest_free_bytes = 0;  ///< The largest such piece; joining kept ones may make it larger.
  Bytes kept_bytes = 0;          ///< Of free_bytes, held ready by threads; given up when needed.
  std::uint64_t slabs = 0;
  std::uint64_t blocks = 0;
  std::uint64_t allocations = 0;  ///< Ever.
  std::uint64_t reuses = 0;       ///< Of these, served from what the thread had kept.
  std::vector<RegistrarReport> registrars;
  std::vector<std::string> registration_errors;  ///< One a slab and registrar that refuses it.
  std::vector<Holder> holders;                   ///< The largest first.
  /// Of slabs that the pool has dropped while another process still maps them, beside slab_bytes.
  /// See BlockOptions::counts_lingering.
  Bytes lingering_bytes = 0;
  /// Of the free bytes, the part that the largest free block cannot use. 0 to 1.
  [[nodiscard]] double fragmentation() const noexcept {
    return free_bytes == 0
               ? 0.0
               : 1.0 - static_cast<double>(largest_free_bytes) / static_cast<double>(free_bytes);
  }
};

/// Blocks of any size out of few large regions that are touched once, registered once and kept.
/// A handle, cheap to copy. Thread-safe; threads that allocate and free do not meet as long as
/// what each has kept suffices. docs/mechanisms/memory.md
class GANTRY_API Pool {
 public:
  static constexpr Bytes kPageAlignment = 4096;  ///< Of blocks of at least so many bytes.
  static constexpr Bytes kLineAlignment = 64;    ///< Of smaller ones.
  static constexpr std::size_t kMaxRegistrars = 8;

  [[nodiscard]] static Result<Pool> create(const PoolOptions& options = {});

  /// A block of exactly `size` bytes, its pages present. Errors: `invalid_argument` for 0 bytes,
  /// an alignment that is no power of two, and in a fork()ed child; `too_large` above the budget;
  /// `out_of_memory` when live blocks leave no room under it, naming the largest holders.
  [[nodiscard]] Result<Block> allocate(Bytes size, const BlockOptions& options = {});

  /// A name for blocks; the same number for the same name. Errors: `too_large` past 4096 of them.
  [[nodiscard]] Result<Tag> tag(std::string_view name);

  /// The handle of a detached block. Errors: `invalid_argument` when `data` is not the beginning
  /// of a live block of this pool: of another one, or given back already.
  [[nodiscard]] Result<Block> adopt(std::byte* data);

  /// Another handle to the live block that holds `data`; see Block::share().
  [[nodiscard]] Result<Block> find(const std::byte* data) const;

  /// Drops slabs without a live block; returns how many bytes. What another process still maps goes
  /// back to the system when it lets go.
  Bytes trim();

  [[nodiscard]] PoolReport report() const;

  /// The region behind a live slab, for handing it to another process; null once it is gone.
  [[nodiscard]] std::shared_ptr<const Region> slab(std::uint32_t number) const;

  /// While this is held, a slab's bytes count as lingering after the pool has dropped the slab: for
  /// whoever lets another process map it. Null once the slab is gone.
  [[nodiscard]] std::shared_ptr<const void> charge(std::uint32_t number) const;

  /// How many slabs the pool has dropped so far. Any thread; costs one load.
  [[nodiscard]] std::uint64_t dropped_slabs() const noexcept;

  /// Can slab() be handed to another process? RegionOptions::shareable.
  [[nodiscard]] bool is_shareable() const noexcept;

  friend bool operator==(const Pool&, const Pool&) = default;
  /// False in a fork()ed child, where handles can only be dropped.
  [[nodiscard]] bool is_of_this_process() const noexcept;
  /// Is `block` of this pool?
  [[nodiscard]] bool owns(const Block& block) const noexcept;

 private:
  struct Handle;
  explicit Pool(std::shared_ptr<Handle> handle) noexcept : handle_(std::move(handle)) {}
  std::shared_ptr<Handle> handle_;
};

}  // namespace gantry
