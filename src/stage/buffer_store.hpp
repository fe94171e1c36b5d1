#pragma once  // stage/buffer_store.hpp: keeps page-aligned buffers and uses them again.

#include <gantry/channel.hpp>
#include <map>
#include <mutex>

#include "base/result.hpp"

namespace gantry {

/// Memory for transports that cannot lend the reader's: blocks of a pool, touched once, then
/// reused. Any thread may give back.
class BufferStore final : public detail::SlotOwner {
 public:
  static constexpr Bytes kAlignment = Pool::kPageAlignment;

  /// `budget_bytes`: the limit for one buffer; 0: a pool's default.
  explicit BufferStore(Bytes budget_bytes);

  struct Taken {
    std::uint64_t token = 0;
    ByteSpan bytes;
  };
  /// Returns a buffer of `size` bytes. Errors: `too_large`, `out_of_memory`.
  [[nodiscard]] Result<Taken> take(Bytes size);
  void give_back(std::uint64_t token) noexcept override;

  /// Errors: `too_large` if take() could never give that size.
  [[nodiscard]] Result<void> check_size(Bytes size) const;
  [[nodiscard]] std::uint64_t buffers() const {
    return pool_->report().blocks;
  }  ///< Buffers that
     ///< are out now.

 private:
  Result<Pool> pool_;
  const Bytes limit_bytes_;
  std::mutex mutex_;
  // by token, the address; frees also what is never given back
  std::map<std::uint64_t, Block> out_;
};

}  // namespace gantry
