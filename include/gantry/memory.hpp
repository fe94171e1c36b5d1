#pragma once  // gantry/memory.hpp: regions of memory, pools and their allocators, registrars.

#include <atomic>
#include <chrono>
#include <gantry/types.hpp>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace gantry {

/// The name of registered memory in operations of a device.
struct DeviceKey {
  std::uint64_t key = 0;         ///< Local key: io_uring's buffer index, libfabric's descriptor.
  std::uint64_t remote_key = 0;  ///< Key for a peer (libfabric); 0 if there is none.
  Bytes offset = 0;              ///< Offset of the memory within the registration of `key`.
};

/// Permitted accesses of the device to registered memory.
enum class DeviceAccess : std::uint8_t {
  read_write,  ///< Reads and writes.
  /// Reads only. Required for memory that is mapped read-only, such as a consumer's. Not every
  /// device supports it: see Registrar::register_memory().
  read,
};

/// Limits of a registrar.
struct RegistrarOptions {
  Bytes budget_bytes = 0;  ///< Largest number of bytes registered at a time; 0: no limit by Gantry.
};

/// Registrations of a registrar, now and in total.
struct RegistrarReport {
  std::string name;                 ///< Registrar::name().
  std::uint64_t registrations = 0;  ///< Number of present registrations.
  Bytes bytes = 0;                  ///< Bytes registered now.
  Bytes peak_bytes = 0;             ///< Largest value of `bytes` so far.
  Bytes budget_bytes = 0;           ///< Limit of `bytes`; 0: none.
  std::uint64_t made = 0;           ///< Number of registrations made so far.
  std::uint64_t reused = 0;  ///< Number of requests that lay inside an existing registration.
  std::uint64_t failed = 0;  ///< Number of requests refused, by the device or by the budget.
  std::chrono::nanoseconds time{};  ///< Time spent registering and unregistering.
  std::string last_error;           ///< Latest error; empty if there was none.
};

class Registrar;
struct Slab;              // private: a pool's
class SlabRegistrations;  // private: a consumer's

/// Keeps memory registered for its lifetime. Move-only; dropping it unregisters the memory. Memory
/// inside a larger registration stays registered until the larger one is dropped.
class GANTRY_API Registration {
 public:
  Registration() noexcept = default;
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();

  /// The memory that the handle covers.
  [[nodiscard]] ByteSpan memory() const noexcept { return memory_; }
  [[nodiscard]] explicit operator bool() const noexcept { return registrar_ != nullptr; }
  /// The registrar of the memory; null for an empty handle.
  [[nodiscard]] const Registrar* registrar() const noexcept { return registrar_.get(); }

  /// The device's key for the memory. Errors: `invalid_argument` for an empty handle, and in a
  /// fork()ed child, since the parent owns its registrations.
  [[nodiscard]] Result<DeviceKey> key() const;

 private:
  friend class Registrar;
  std::shared_ptr<Registrar> registrar_;
  ByteSpan memory_;
  void* range_ = nullptr;  // the registrar's entry that covers memory_
  DeviceKey key_;
};

/// Makes memory known to a device that cannot use unknown memory. Thread-safe. Held by shared_ptr:
/// each registration keeps its registrar alive.
class GANTRY_API Registrar : public std::enable_shared_from_this<Registrar> {
 public:
  virtual ~Registrar();
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

  /// Registers `memory`, or returns a handle into an existing registration that covers it. The
  /// memory must stay mapped until its last handle is dropped: the registrar cannot see an unmap,
  /// and a later mapping at the same address would look registered. Errors: `already_exists` when
  /// `memory` overlaps a registration without lying inside it, or asks for write access inside a
  /// read-only one; `out_of_memory` above the budget or the system's limit; `too_large`;
  /// `invalid_argument` for 0 bytes; `unsupported` for memory that is mapped read-only, if the
  /// device cannot register such memory; `system`.
  [[nodiscard]] Result<Registration> register_memory(
      ByteSpan memory, DeviceAccess access = DeviceAccess::read_write);

  /// Name in reports and errors.
  [[nodiscard]] const std::string& name() const noexcept;
  /// Registrations now and in total.
  [[nodiscard]] RegistrarReport report() const;

 protected:
  /// Keys that a backend returns for one range.
  struct Keys {
    std::uint64_t key = 0;         ///< DeviceKey::key.
    std::uint64_t remote_key = 0;  ///< DeviceKey::remote_key.
  };
  /// For backends; messages contain `name`.
  Registrar(std::string name, const RegistrarOptions& options);

  // For backends. Called one at a time, under the registrar's lock.
  [[nodiscard]] virtual Result<Keys> do_register(ByteSpan memory, DeviceAccess access) = 0;
  /// Returns 0 or an errno value. Must be harmless if the memory is already unmapped.
  [[nodiscard]] virtual int do_unregister(const Keys& keys, ByteSpan memory) noexcept = 0;

 private:
  friend class Registration;
  friend struct Slab;
  friend class SlabRegistrations;
  [[nodiscard]] Result<Registration> register_fresh(ByteSpan memory, DeviceAccess access);
  [[nodiscard]] Result<Registration> register_checked(ByteSpan memory, DeviceAccess access,
                                                      bool is_fresh);
  [[nodiscard]] Result<Registration> register_locked(ByteSpan memory, DeviceAccess access);
  [[nodiscard]] Result<void> check_range(ByteSpan memory, bool is_fresh);
  [[nodiscard]] Result<void> add(ByteSpan memory, DeviceAccess access);
  void leave(void* range) noexcept;
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns a registrar that page-locks memory: its pages become and stay resident. Needs
/// RLIMIT_MEMLOCK or CAP_IPC_LOCK.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<Registrar>> make_page_lock_registrar(
    const RegistrarOptions& options = {});

// Regions of memory, and the pool that hands out blocks of them.

// ---- regions -------------------------------------------------------------------------------

/// Kinds of pages for a region.
enum class PageKind {
  any,    ///< In a request: hugetlb if enough is reserved, otherwise transparent, otherwise plain.
  plain,  ///< The base page, 4 KiB on most machines.
  transparent,  ///< Huge pages by advice, where and when the kernel provides them.
  hugetlb,      ///< Huge pages from the reserve (vm.nr_hugepages).
};
[[nodiscard]] GANTRY_API std::string_view to_string(PageKind kind) noexcept;

/// How to make a region's memory.
struct RegionOptions {
  /// Requested kind; see Region::pages() for the actual one.
  PageKind pages = PageKind::transparent;
  /// Number of the only NUMA node that may provide the memory. -1: any node.
  int numa_node = -1;
  /// False: memory private to this process. Many kernels give huge pages to private memory but not
  /// to shared memory (see `gantry doctor`). For devices and files; not for channels.
  bool shareable = true;
};

/// Memory with an owner. Move-only; the destructor unmaps and closes. A region is either shared
/// memory behind a sealed memfd, which another process can neither resize nor ever map writable
/// (F_SEAL_FUTURE_WRITE); or memory that cannot be shared: private, or the caller's own.
class GANTRY_API Region {
 public:
  /// Makes `size` bytes (rounded up to whole pages), mapped writable only here. `name` appears in
  /// /proc/PID/maps if the region is shareable. Pages appear on first touch; see touch(). Errors:
  /// `too_large`, `out_of_memory`, `unsupported` for a page kind or a node that this machine does
  /// not have.
  [[nodiscard]] static Result<Region> create(Bytes size, std::string_view name,
                                             const RegionOptions& options = {});

  /// Maps a descriptor from another process, read-only and whole. Takes ownership of the
  /// descriptor, even on failure. Refuses a descriptor that is not a memfd sealed as create() seals
  /// it: a peer could shrink it, and every read would raise SIGBUS. Refuses a file whose size is
  /// not `size`, rounded up to whole pages of any size from 4 to 64 KiB.
  [[nodiscard]] static Result<Region> import(int descriptor, Bytes size);

  /// Makes a region over the caller's memory, which must outlive the region; the region never
  /// unmaps it.
  [[nodiscard]] static Result<Region> over(ByteSpan memory);

  Region() noexcept = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  /// First byte; null for an empty region.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// Size in bytes.
  [[nodiscard]] Bytes size() const noexcept { return size_; }
  /// -1 if the region is not shareable.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Closes the descriptor. The memory stays mapped but can no longer be shared.
  void close_descriptor() noexcept;
  /// The kind in use. `transparent` is only a hint to the kernel.
  [[nodiscard]] PageKind pages() const noexcept { return pages_; }

  /// Makes [offset, offset+size) present, so that later accesses do not fault. In a writable
  /// region, up to `threads` threads on the region's node create the pages (0: a number by the
  /// size, at most one per core of the node); in an imported region, the pages are mapped.
  [[nodiscard]] Result<void> touch(Bytes offset, Bytes size, unsigned threads = 1);

  /// Asks the kernel to gather present pages into huge ones (MADV_COLLAPSE), even where it does not
  /// give huge pages on first touch, as is common for shared memory. The kernel copies the pages,
  /// about 2 ms per MiB, so this pays off for long-lived memory. Does nothing for hugetlb. Errors:
  /// `unsupported` (Linux before 6.1, pages that are not present, a region without room for a huge
  /// page); `out_of_memory`. After an error some pages may be gathered.
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
class PoolState;  // private: state behind the pool's handles
namespace detail {
/// The part of a block's state that its handles read. Private.
struct BlockHead {
  std::byte* data = nullptr;
  std::atomic<Bytes> size{0};  // constant while a handle exists
};
}  // namespace detail

/// The owner of a block in reports and errors. Made by Pool::tag(); a plain number.
struct Tag {
  std::uint32_t number = 0;  ///< 0: untagged.
};

/// Layout of a block, and its owner in reports.
struct BlockOptions {
  /// Alignment, a power of two. 0: a page for blocks of at least a page, a cache line for smaller
  /// ones.
  Bytes alignment = 0;
  Tag tag{};  ///< A tag of Pool::tag(). Default: untagged.
  /// Whether memory that the pool has dropped, but another process still maps, counts against the
  /// budget when a new slab is needed. allocate() then fails with `out_of_memory` until that
  /// process unmaps the memory; see Pool::charge().
  bool counts_lingering = false;
};

/// A piece of a pool's memory, `bytes()`; dropping it frees the memory. Move-only. May outlive all
/// handles of its pool.
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
  [[nodiscard]] std::uint32_t slab() const noexcept;  ///< Number of the block's slab.
  [[nodiscard]] Bytes offset() const noexcept;        ///< Offset within that slab.

  /// The key by which an operation of `registrar`'s device names this block. Needs no look-up,
  /// since the whole slab is registered; with lazy registration the first call for a slab registers
  /// it. Errors: `invalid_argument` when the pool does not know the registrar, or in a fork()ed
  /// child; the registrar's error when it refused the slab.
  [[nodiscard]] Result<DeviceKey> key_for(const Registrar& registrar) const;

  /// Another handle to the same memory, which is freed when the last handle is dropped. Threads
  /// must order this call against dropping the handle on which it is called, as for any object.
  [[nodiscard]] Block share() const noexcept;

  /// True if there are other handles to the memory. After `false` only the caller can change that.
  [[nodiscard]] bool is_shared() const noexcept;

  /// Drops the handle and never reuses the memory, whatever happens to other handles, since another
  /// process may still read it. The slab does not serve new blocks any more, and is unmapped once
  /// all its other blocks are free.
  void abandon() noexcept;

  /// Keeps the block alive without a handle; Pool::adopt() finds it again by its address.
  [[nodiscard]] std::byte* detach() noexcept;

  /// True if the block was made for a container of PoolResource or PoolAllocator, even if that
  /// container no longer exists. Such a block is as large as the container's capacity, or holds
  /// several containers.
  [[nodiscard]] bool is_of_container() const noexcept;

 private:
  friend class PoolState;
  GANTRY_RETURNS(unconsumed) explicit Block(detail::BlockHead& head) noexcept : head_(&head) {}
  void give_back() noexcept;
  // One pointer: moving a block, its most frequent operation, is one load and one store.
  detail::BlockHead* head_ = nullptr;
};

/// Time at which an action on a slab takes place.
enum class When {
  at_growth,  ///< For the whole slab when it is made.
  on_demand,  ///< For a part of the slab when it is first requested.
};

/// Size limits of a pool, its growth steps, and its registrars.
struct PoolOptions {
  Bytes slab_bytes = Bytes{64} << 20;  ///< Step in which memory (a slab) is taken from the system.
  Bytes budget_bytes = 0;              ///< Hard limit; 0: four fifths of the machine's memory.
  std::string name = "pool";           ///< Name in errors and reports; at most 200 characters.
  RegionOptions region{};              ///< How slabs are made.
  When touch = When::on_demand;        ///< When pages are made. on_demand: when a block needs them.
  std::vector<std::shared_ptr<Registrar>> registrars{};  ///< At most Pool::kMaxRegistrars.
  When registration = When::at_growth;  ///< With on_demand: at the first key_for().
  /// For long-lived pools: gathers the pages of each slab into huge ones at growth, where the
  /// kernel did not give any; the pages are then made at growth, too. See Region::collapse().
  /// Failures are listed in PoolReport::collapse_errors.
  bool collapse = false;
};

/// The live blocks of one tag.
struct Holder {
  std::string tag;           ///< Empty: untagged.
  Bytes bytes = 0;           ///< Total size of these blocks.
  std::uint64_t blocks = 0;  ///< Number of these blocks.
  /// Age of the oldest block, accurate to a second unless the system's time was changed.
  std::chrono::seconds oldest{};
};

/// Contents of a pool now, and its history.
struct GANTRY_API PoolReport {
  Bytes live_bytes = 0;  ///< Bytes in blocks now.
  /// Largest number of bytes in blocks so far. Exact while one thread allocates and frees;
  /// otherwise never too low, and too high by at most the bytes that threads kept for themselves.
  Bytes peak_bytes = 0;
  Bytes slab_bytes = 0;           ///< Bytes taken from the system now.
  Bytes budget_bytes = 0;         ///< Upper limit of slab_bytes.
  Bytes free_bytes = 0;           ///< Part of slab_bytes that is available for new blocks.
  Bytes largest_free_bytes = 0;   ///< Largest free piece, before kept pieces are joined.
  Bytes kept_bytes = 0;           ///< Part of free_bytes that threads keep until it is needed.
  std::uint64_t slabs = 0;        ///< Number of slabs now.
  std::uint64_t blocks = 0;       ///< Number of live blocks.
  std::uint64_t allocations = 0;  ///< Number of allocations so far.
  std::uint64_t reuses = 0;       ///< Allocations served from the thread's kept memory.
  /// One report per registrar in PoolOptions::registrars. Counts include other users of the
  /// registrar.
  std::vector<RegistrarReport> registrars;
  std::vector<std::string> registration_errors;  ///< One per refused pair of slab and registrar.
  std::vector<std::string> collapse_errors;      ///< One per slab that could not be collapsed.
  std::vector<Holder> holders;                   ///< Largest first.
  /// Bytes of slabs that the pool has dropped while another process still maps them; not included
  /// in slab_bytes. See BlockOptions::counts_lingering.
  Bytes lingering_bytes = 0;
};

/// Hands out blocks of any size from a few large regions (slabs) that are touched once, registered
/// once and kept. A handle, cheap to copy. Thread-safe; threads do not contend while their kept
/// memory suffices. See docs/mechanisms/memory.md.
class GANTRY_API Pool {
 public:
  static constexpr Bytes kPageAlignment = 4096;  ///< Alignment of blocks of at least this size.
  static constexpr Bytes kLineAlignment = 64;    ///< Alignment of smaller blocks.
  /// The most that PoolOptions::registrars may name.
  static constexpr std::size_t kMaxRegistrars = 8;

  /// Makes a pool. It takes memory from the system at the first allocation. Errors:
  /// `invalid_argument`.
  [[nodiscard]] static Result<Pool> create(const PoolOptions& options = {});

  /// Returns a block of exactly `size` bytes whose pages are present. Errors: `invalid_argument`
  /// for 0 bytes, an alignment that is not a power of two, and in a fork()ed child; `too_large`
  /// above the budget; `out_of_memory` when live blocks leave no room under the budget, with the
  /// largest holders.
  [[nodiscard]] Result<Block> allocate(Bytes size, const BlockOptions& options = {});

  /// Returns a tag for blocks; equal names get equal numbers. Errors: `too_large` past 4096 tags.
  [[nodiscard]] Result<Tag> tag(std::string_view name);

  /// Returns the handle of a detached block. Errors: `invalid_argument` when `data` is not the
  /// beginning of a live block of this pool: the block belongs to another pool, or was already
  /// freed.
  [[nodiscard]] Result<Block> adopt(std::byte* data);

  /// Another handle to the live block that contains `data`. Errors: `invalid_argument` if there is
  /// none.
  [[nodiscard]] Result<Block> find(const std::byte* data) const;

  /// Drops slabs without a live block and returns their size. Memory that another process still
  /// maps returns to the system when that process unmaps it.
  Bytes trim();

  /// Present contents and history. Any thread.
  [[nodiscard]] PoolReport report() const;

  /// The region of a live slab, for sharing with another process; null once the slab is gone.
  [[nodiscard]] std::shared_ptr<const Region> slab(std::uint32_t number) const;

  /// Once the pool has dropped the slab, the slab's bytes count as lingering while the result is
  /// held. For callers that let another process map the slab. Null once the slab is gone.
  [[nodiscard]] std::shared_ptr<const void> charge(std::uint32_t number) const;

  /// Number of slabs that the pool has dropped so far. Any thread; costs one load.
  [[nodiscard]] std::uint64_t dropped_slabs() const noexcept;

  /// True if the regions of slab() can be shared with another process: RegionOptions::shareable.
  [[nodiscard]] bool is_shareable() const noexcept;

  friend bool operator==(const Pool&, const Pool&) = default;
  /// False in a fork()ed child, where handles can only be dropped.
  [[nodiscard]] bool is_of_this_process() const noexcept;
  /// True if `block` belongs to this pool.
  [[nodiscard]] bool owns(const Block& block) const noexcept;

 private:
  struct Handle;
  explicit Pool(std::shared_ptr<Handle> handle) noexcept : handle_(std::move(handle)) {}
  std::shared_ptr<Handle> handle_;
};

// ---- containers whose memory lies in a pool -----------------------------------------------------

namespace detail {
/// Returns null when the pool cannot allocate. The error is lost, so other code should use the
/// pool.
[[nodiscard]] GANTRY_API std::byte* allocate_detached(Pool& pool, Bytes size, Bytes alignment,
                                                      Tag tag) noexcept;
/// Ends the program when `data` is not a detached block of `pool`: a double free, or another pool's
/// block.
GANTRY_API void free_detached(Pool& pool, std::byte* data) noexcept;
}  // namespace detail

/// A std::pmr::memory_resource over a pool. A container's elements can be sent without a copy:
/// Pool::find() returns a handle to its memory, which keeps the memory alive after the container is
/// gone. The memory is as large as the container's capacity, so state how much of it to send:
///   Block block = *pool.find(reinterpret_cast<const std::byte*>(values.data()));
///   out.send(Draft().move(std::move(block), values.size() * sizeof(values[0])));
/// Throws std::bad_alloc, as containers expect.
class GANTRY_API PoolResource final : public std::pmr::memory_resource {
 public:
  /// Allocates from `pool`, with `tag` in its reports.
  explicit PoolResource(Pool pool, Tag tag = {}) noexcept : pool_(std::move(pool)), tag_(tag) {}
  PoolResource(const PoolResource&) = delete;
  PoolResource& operator=(const PoolResource&) = delete;
  /// The pool of all allocations.
  [[nodiscard]] Pool& pool() noexcept { return pool_; }

 private:
  void* do_allocate(Bytes size, Bytes alignment) override {
    std::byte* const data = detail::allocate_detached(pool_, size, alignment, tag_);
    if (data == nullptr) throw std::bad_alloc();
    return data;
  }
  void do_deallocate(void* data, Bytes, Bytes) override {
    detail::free_detached(pool_, static_cast<std::byte*>(data));
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    const auto* const same = dynamic_cast<const PoolResource*>(&other);
    return same != nullptr && same->pool_ == pool_;
  }

  Pool pool_;
  Tag tag_;
};

/// A pool as a C++ allocator: std::vector<float, PoolAllocator<float>> values(allocator).
template <class T>
class PoolAllocator {
 public:
  /// Required of allocators by the standard.
  using value_type = T;

  /// Allocates from `pool`, with `tag` in its reports.
  explicit PoolAllocator(Pool pool, Tag tag = {}) noexcept : pool_(std::move(pool)), tag_(tag) {}
  // Copyable, not movable: a moved-from allocator must keep its pool.
  PoolAllocator(const PoolAllocator&) noexcept = default;
  PoolAllocator& operator=(const PoolAllocator&) noexcept = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>& other) noexcept  // NOLINT: containers convert
      : pool_(other.pool()), tag_(other.tag()) {}

  /// Memory for `count` elements; throws std::bad_alloc when the pool refuses.
  [[nodiscard]] T* allocate(std::size_t count) {
    if (count > ~Bytes{0} / sizeof(T)) throw std::bad_array_new_length();
    std::byte* const data = detail::allocate_detached(pool_, count * sizeof(T), alignof(T), tag_);
    if (data == nullptr) throw std::bad_alloc();
    return reinterpret_cast<T*>(data);
  }
  /// Frees memory of allocate().
  void deallocate(T* data, std::size_t) noexcept {
    detail::free_detached(pool_, reinterpret_cast<std::byte*>(data));
  }

  /// The pool of all allocations.
  [[nodiscard]] const Pool& pool() const noexcept { return pool_; }
  /// Owner of the memory in the pool's reports.
  [[nodiscard]] Tag tag() const noexcept { return tag_; }
  template <class U>
  friend bool operator==(const PoolAllocator& a, const PoolAllocator<U>& b) noexcept {
    return a.pool() == b.pool();
  }

 private:
  Pool pool_;
  Tag tag_;
};

}  // namespace gantry
