#pragma once  // memory/pool/slab.hpp: one region of a pool and the pieces it is cut into.

#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <gantry/memory.hpp>
#include <map>
#include <mutex>

#include "core/base/poison.hpp"
#include "core/memory/pool/free_ranges.hpp"

namespace gantry {

#if defined(NDEBUG)
inline constexpr bool kSpoils = false;
#else
inline constexpr bool kSpoils = true;
#endif

/// Fills a freed block with nonsense, so that whoever still reads it notices.
inline void spoil(ByteSpan memory) noexcept {
  constexpr int kNonsense = 0xdb;
  constexpr Bytes kAtMost = Bytes{64} << 10;  // enough to be noticed
  if (kSpoils) std::memset(memory.data(), kNonsense, std::min(memory.size(), kAtMost));
}

struct Slab;

/// The clock for ages, which only people read. It alone costs next to nothing (no call into the
/// kernel's page: 0.7 ns against 4 for the coarse monotonic one), and every block pays for it.
[[nodiscard]] inline std::uint32_t wall_seconds() noexcept {
  return static_cast<std::uint32_t>(::time(nullptr));
}

/// A piece cut out of a slab: in a block, kept by a thread, or in the depot. It stays the same
/// until it goes back into the slab's free ranges.
struct alignas(64) Extent : detail::BlockHead {
  /// A bit of `handles`: somebody called abandon(), so the last handle does not give the piece
  /// back.
  static constexpr std::uint32_t kAbandoned = std::uint32_t{1} << 31;

  Slab* slab = nullptr;
  Bytes capacity = 0;
  Extent* next = nullptr;  // in the list that it is in

  // About its block, as is `size`. The thread that has it writes them, report() reads them at any
  // time.
  std::atomic<std::uint32_t> tag{0};
  std::atomic<std::uint32_t> born_s{0};    // see wall_seconds()
  std::atomic<std::uint32_t> handles{0};   // [H] 0: no block; includes kAbandoned
  std::atomic<std::uint32_t> detached{0};  // of these, without a Block: Pool::adopt() takes one

  std::uint32_t size_class = 0;    // kNoClass: `loose`
  std::atomic<bool> loose{false};  // goes straight back to the slab: it was cut to a special
                                   // alignment, or its slab serves nothing new
  bool present = false;            // its pages are present
  // a container of PoolResource or PoolAllocator had it made, which may fill less
  std::atomic<bool> of_container{false};

  [[nodiscard]] Bytes offset() const noexcept;  // in its slab
};
static_assert(sizeof(Extent) == 64);

/// A list of pieces, linked through themselves.
class ExtentList {
 public:
  void push(Extent& extent) noexcept {
    extent.next = top_;
    top_ = &extent;
    ++count_;
  }
  [[nodiscard]] Extent* pop() noexcept {
    Extent* const extent = top_;
    if (extent == nullptr) return nullptr;
    top_ = extent->next;
    --count_;
    return extent;
  }
  [[nodiscard]] const Extent* top() const noexcept { return top_; }
  [[nodiscard]] unsigned count() const noexcept { return count_; }

 private:
  Extent* top_ = nullptr;
  unsigned count_ = 0;
};

/// One registrar's view of a slab.
struct SlabRegistration {
  enum class State : unsigned { none, made, refused };
  std::atomic<State> state{State::none};  // [S] release after the rest is written
  /// Its registrar, once it is made; no two of a slab have the same.
  std::atomic<const Registrar*> with{nullptr};  // [S] likewise
  Registration registration;
  DeviceKey key;
  Error error;
};

/// Bytes of a slab, which its pool counts until the slab is unmapped here and all that share the
/// charge have dropped it. May outlive the pool.
class SlabCharge {
 public:
  using Total = std::shared_ptr<std::atomic<Bytes>>;
  SlabCharge(Total total, Bytes bytes) noexcept : total_(std::move(total)), bytes_(bytes) {
    total_->fetch_add(bytes_, std::memory_order_relaxed);  // a sum; it orders nothing
  }
  ~SlabCharge() { total_->fetch_sub(bytes_, std::memory_order_relaxed); }
  SlabCharge(const SlabCharge&) = delete;
  SlabCharge& operator=(const SlabCharge&) = delete;

 private:
  Total total_;
  Bytes bytes_;
};

struct Slab {
  Slab(PoolState& owner, std::uint32_t given, std::shared_ptr<Region> memory, bool is_present,
       const SlabCharge::Total& charged);
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab();

  /// Makes the pages of [offset, offset + size) present. Any thread.
  [[nodiscard]] Result<void> make_present(Bytes offset, Bytes size);

  /// Registers the whole slab, once. Any thread.
  void register_with(std::size_t index, Registrar& registrar) noexcept;

  /// Null when there is none, or not yet.
  [[nodiscard]] const SlabRegistration* registration_with(
      const Registrar& registrar) const noexcept {
    for (const SlabRegistration& registration : registrations)
      if (registration.with.load(std::memory_order_acquire) == &registrar)  // [S]
        return &registration;
    return nullptr;
  }

  [[nodiscard]] std::byte* at(Bytes offset) const noexcept { return base + offset; }

  PoolState& pool;
  const std::uint32_t number;
  // declared before the region: it counts until that is unmapped
  const std::shared_ptr<const SlabCharge> charge;
  const std::shared_ptr<Region> region;
  std::byte* const base;             // of the region
  FreeRanges free;                   // under the pool's lock
  std::map<Bytes, Extent*> extents;  // under the pool's lock; by offset, all that are cut
  std::mutex registering;            // guards lazy registration
  std::array<SlabRegistration, Pool::kMaxRegistrars> registrations;
  std::string collapse_error;  // why its pages could not be gathered; set before others see it
  std::unique_ptr<Slab> next_dropped;
  // under the pool's lock: something in it was abandoned, so nothing is cut from it
  bool is_retired = false;

 private:
  // A bit for each page that is known to be present.
  std::unique_ptr<std::atomic<std::uint64_t>[]> pages_;
};

inline Bytes Extent::offset() const noexcept {
  return static_cast<Bytes>(data - slab->base);
}

}  // namespace gantry
