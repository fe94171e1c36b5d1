#pragma once  // runtime/buffer_store.hpp: page-aligned buffers that are kept and used again.

#include <gantry/channel.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.hpp"

namespace gantry {

/// Memory of the transports that cannot lend the reader's: touched once, then reused. It only
/// grows: as many buffers as were ever out at once. Any thread may give back.
class BufferStore final : public detail::Keeper {
 public:
  static constexpr Bytes kAlignment = 4096;

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
  [[nodiscard]] std::size_t buffers() const;  ///< Made so far.

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept;
  };
  struct Buffer {
    std::unique_ptr<std::byte[], Free> bytes;
    Bytes capacity = 0;
    bool out = false;
  };
  [[nodiscard]] Buffer& pick(Bytes size);
  [[nodiscard]] static Result<void> grow(Buffer& buffer, Bytes size);

  const Bytes limit_bytes_;
  mutable std::mutex mutex_;
  std::vector<Buffer> buffers_;  // token: index
};

}  // namespace gantry
