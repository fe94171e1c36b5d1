#pragma once  // gantry/memory/allocator.hpp: containers whose memory lies in a pool.

#include <gantry/memory.hpp>
#include <memory_resource>
#include <new>

namespace gantry {

namespace detail {
/// Null when the pool cannot allocate. Its error is lost, so code that can should use the pool.
[[nodiscard]] GANTRY_API std::byte* allocate_detached(Pool& pool, Bytes size, Bytes alignment,
                                                      Tag tag) noexcept;
/// Ends the program when `data` is not a detached block of `pool`: freed twice, or of another pool.
GANTRY_API void free_detached(Pool& pool, std::byte* data) noexcept;
}  // namespace detail

/// A std::pmr::memory_resource over a pool. What a container holds can be sent without a copy:
/// Pool::find() gives a handle to its memory, which keeps that alive after the container is gone.
/// The memory is as large as the container's capacity, so say how much of it is to be sent:
///   Block block = *pool.find(reinterpret_cast<const std::byte*>(values.data()));
///   out.send(Draft().move(std::move(block), values.size() * sizeof(values[0])));
/// Throws std::bad_alloc, as containers expect.
class GANTRY_API PoolResource final : public std::pmr::memory_resource {
 public:
  /// Allocates from `pool`, with `tag` in its reports.
  explicit PoolResource(Pool pool, Tag tag = {}) noexcept : pool_(std::move(pool)), tag_(tag) {}
  PoolResource(const PoolResource&) = delete;
  PoolResource& operator=(const PoolResource&) = delete;
  /// Where it allocates.
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

/// The same as a C++ allocator: std::vector<float, PoolAllocator<float>> values(allocator).
template <class T>
class PoolAllocator {
 public:
  /// As the standard's containers ask.
  using value_type = T;

  /// Allocates from `pool`, with `tag` in its reports.
  explicit PoolAllocator(Pool pool, Tag tag = {}) noexcept : pool_(std::move(pool)), tag_(tag) {}
  // It can only be copied: a moved-from allocator must still be what it was.
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
  /// Gives it back.
  void deallocate(T* data, std::size_t) noexcept {
    detail::free_detached(pool_, reinterpret_cast<std::byte*>(data));
  }

  /// Where it allocates.
  [[nodiscard]] const Pool& pool() const noexcept { return pool_; }
  /// Whose the memory is in the pool's reports.
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
