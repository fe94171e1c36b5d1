#include "stage/buffer_store.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace gantry {

BufferStore::BufferStore(Bytes budget_bytes)
    : pool_(Pool::create({.name = "buffers"})),
      limit_bytes_(budget_bytes != 0 || !pool_ ? budget_bytes : pool_->report().budget_bytes) {}

Result<void> BufferStore::check_size(Bytes size) const {
  if (size <= limit_bytes_) return {};
  return fail(Code::too_large,
              fmt::format("a message of {} bytes: the limit is {} bytes", size, limit_bytes_),
              "send it in several messages, or raise the channel's budget");
}

Result<BufferStore::Taken> BufferStore::take(Bytes size) {
  GANTRY_TRY(check_size(size));
  if (!pool_) return tl::unexpected(pool_.error());
  GANTRY_ASSIGN(Block block, pool_->allocate(std::max<Bytes>(size, 1), {.alignment = kAlignment}));
  std::byte* const data = block.bytes().data();
  const auto token = reinterpret_cast<std::uintptr_t>(data);
  const std::lock_guard lock(mutex_);
  out_.insert_or_assign(token, std::move(block));
  return Taken{token, ByteSpan(data, size)};
}

void BufferStore::give_back(std::uint64_t token) noexcept {
  const std::lock_guard lock(mutex_);
  GANTRY_ASSERT(out_.erase(token) == 1);  // a token is given back once
}

}  // namespace gantry
