#pragma once  // gantry/memory.hpp: memory with an identity (regions) and the pool that hands it
              // out.

#include <gantry/types.hpp>
#include <memory>

namespace gantry {

/// Memory behind a sealed memfd: it can be handed to another process, which can then neither
/// resize it nor (F_SEAL_FUTURE_WRITE) ever map it writable. Move-only; unmaps and closes.
class Region {
 public:
  /// Makes `size` bytes (rounded up to whole pages), mapped writable here and nowhere else.
  /// `name` shows up in /proc/PID/maps. Pages appear when touched; see touch().
  [[nodiscard]] static Result<Region> create(Bytes size, std::string_view name);

  /// Maps a descriptor another process handed over, read-only. Takes ownership of it, also on
  /// failure. Refuses one that is not a memfd sealed as create() seals, or not of `size` bytes:
  /// a peer could shrink it and every read would be a SIGBUS.
  [[nodiscard]] static Result<Region> import(int descriptor, Bytes size);

  Region() noexcept = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] Bytes size() const noexcept { return size_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

  /// Brings [offset, offset+size) in before it is used, so that no later access faults.
  /// Writable regions get their pages made; imported ones get theirs mapped.
  [[nodiscard]] Result<void> touch(Bytes offset, Bytes size);

 private:
  std::byte* data_ = nullptr;
  Bytes size_ = 0;
  int descriptor_ = -1;
  bool writable_ = false;
};

class Pool;

/// A piece of a pool's memory; goes back when dropped. Move-only. May outlive its pool handle.
class Block {
 public:
  Block() noexcept = default;
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;
  ~Block();

  [[nodiscard]] ByteSpan bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] std::uint32_t slab() const noexcept { return slab_; }  ///< Its slab's number.
  [[nodiscard]] Bytes offset() const noexcept { return offset_; }      ///< Within that slab.

 private:
  friend class Pool;
  struct Shared;  // what pool and blocks hold together
  std::shared_ptr<Shared> shared_;
  std::byte* data_ = nullptr;
  Bytes size_ = 0;
  Bytes offset_ = 0;
  std::uint32_t slab_ = 0;
};

struct PoolOptions {
  Bytes slab_bytes = Bytes{64} << 20;  ///< Memory is taken from the system in steps of this.
  Bytes budget_bytes = 0;              ///< Hard limit; 0: four fifths of the machine's memory.
};

struct PoolReport {
  Bytes live_bytes = 0;  ///< In blocks now.
  Bytes peak_bytes = 0;  ///< The most ever in blocks.
  Bytes slab_bytes = 0;  ///< Taken from the system now.
  Bytes budget_bytes = 0;
  std::uint64_t slabs = 0;
  std::uint64_t blocks = 0;
};

/// Blocks of any size out of few large regions that are touched once and kept. Thread-safe.
class Pool {
 public:
  static constexpr Bytes kAlignment = 4096;  ///< Of every block: engines and readers like pages.

  [[nodiscard]] static Result<Pool> create(const PoolOptions& options);

  /// A block of exactly `size` bytes, its pages present. Errors: `invalid_argument` for 0,
  /// `too_large` above the budget, `out_of_memory` when live blocks leave no room under it.
  [[nodiscard]] Result<Block> allocate(Bytes size);

  /// Gives slabs without a live block back to the system; returns how many bytes.
  Bytes trim();

  [[nodiscard]] PoolReport report() const;

  /// The region behind a live slab, for handing it to another process; null once it is gone.
  [[nodiscard]] std::shared_ptr<const Region> slab(std::uint32_t number) const;

 private:
  explicit Pool(std::shared_ptr<Block::Shared> shared);
  std::shared_ptr<Block::Shared> shared_;
};

}  // namespace gantry
