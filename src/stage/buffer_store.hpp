#pragma once  // stage/buffer_store.hpp: page-aligned buffers that are kept and used again.

#include <gantry/channel.hpp>
#include <map>
#include <mutex>

#include "base/result.hpp"

namespace gantry {

/// Memory of the transports that cannot lend the reader's: blocks of a pool, touched once, then
/// reused. Any thread may give back.
class BufferStore final : public detail::SlotOwner {
 public:
  static constexpr Bytes kAlignment = Pool::kPageAlignment;

  /// Limit for one buffer: `budget_bytes`, or what a pool would take by default when 0.
  explicit BufferStore(Bytes budget_bytes);

  struct Taken {
    std::uint64_t token = 0;
    ByteSpan bytes;
  };
  /// A buffer of `size` bytes. Errors: `too_large`, `out_of_memory`.
  [[nodiscard]] Result<Taken> take(Bytes size);
  void give_back(std::uint64_t token) noexcept override;

  /// Errors: `too_large` for what take() would never give.
  [[nodiscard]] Result<void> check_size(Bytes size) const;
  [[nodiscard]] std::uint64_t buffers() const { return pool_->report().blocks; }  ///< Out now.

 private:
  Result<Pool> pool_;
  const Bytes limit_bytes_;
  std::mutex mutex_;
  std::map<std::uint64_t, Block> out_;  // by token, the address: what is never given back goes too
};

}  // namespace gantry
