#include "runtime/buffer_store.hpp"

#include <algorithm>
#include <new>

#include "base/system_memory.hpp"

namespace gantry {
namespace {

Bytes whole_pages(Bytes size) {
  return (size + BufferStore::kAlignment - 1) / BufferStore::kAlignment * BufferStore::kAlignment;
}

}  // namespace

BufferStore::BufferStore(Bytes budget_bytes)
    : limit_bytes_(budget_bytes != 0 ? budget_bytes : system_memory().total / 5 * 4) {}

void BufferStore::Free::operator()(std::byte* bytes) const noexcept {
  ::operator delete[](bytes, std::align_val_t{kAlignment});
}

// The smallest free one that fits; else the largest free one, to be grown; else a new one.
BufferStore::Buffer& BufferStore::pick(Bytes size) {
  Buffer* best = nullptr;
  for (auto& buffer : buffers_) {
    if (buffer.out) continue;
    const bool fits = buffer.capacity >= size;
    if (best == nullptr || (fits ? best->capacity < size || buffer.capacity < best->capacity
                                 : buffer.capacity > best->capacity && best->capacity < size))
      best = &buffer;
  }
  return best != nullptr ? *best : buffers_.emplace_back();
}

// By half as much again at least, so that slowly growing messages do not allocate each time.
Result<void> BufferStore::grow(Buffer& buffer, Bytes size) {
  const Bytes capacity = whole_pages(std::max(size, buffer.capacity + buffer.capacity / 2));
  buffer.bytes.reset();
  buffer.capacity = 0;
  buffer.bytes.reset(static_cast<std::byte*>(
      ::operator new[](capacity, std::align_val_t{kAlignment}, std::nothrow)));
  if (buffer.bytes == nullptr)
    return fail(Code::out_of_memory, fmt::format("a buffer of {} bytes: no memory", size),
                "send smaller messages, or free memory");
  buffer.capacity = capacity;
  return {};
}

Result<void> BufferStore::check_size(Bytes size) const {
  if (size <= limit_bytes_) return {};
  return fail(Code::too_large,
              fmt::format("a message of {} bytes: the limit is {} bytes", size, limit_bytes_),
              "send it in several messages, or raise the channel's budget");
}

Result<BufferStore::Taken> BufferStore::take(Bytes size) {
  GANTRY_TRY(check_size(size));
  const std::scoped_lock lock(mutex_);
  Buffer& buffer = pick(size);
  const Bytes needed = std::max(size, kAlignment);
  if (buffer.capacity < needed) GANTRY_TRY(grow(buffer, needed));
  buffer.out = true;
  return Taken{static_cast<std::uint64_t>(&buffer - buffers_.data()),
               ByteSpan(buffer.bytes.get(), size)};
}

void BufferStore::give_back(std::uint64_t token) noexcept {
  const std::scoped_lock lock(mutex_);
  buffers_[token].out = false;
}

std::size_t BufferStore::buffers() const {
  const std::scoped_lock lock(mutex_);
  return buffers_.size();
}

}  // namespace gantry
