#pragma once  // bench/memory/lru_cache.hpp: an implicit registration cache, as libraries have them.

#include <gantry/memory.hpp>
#include <map>
#include <mutex>

namespace gantry::bench {

/// Remembers what memory has been registered, by address, and forgets what has not been used for
/// the longest time when it knows too much. This is what UCX (ucs_rcache) and libfabric
/// (ofi_mr_cache) put between a user's buffers and a device, and like theirs it takes a lock to
/// find an entry and to give it back; entries in use are not in the list of what may be forgotten.
/// Thread-safe. What those do besides, learning of memory that is unmapped behind their back, is
/// left out, in this one's favour.
class LruCache {
 public:
  struct Entry {
    Registration registration;
    DeviceKey key;
    std::byte* begin = nullptr;
    Bytes size = 0;
    unsigned users = 0;
    Entry* newer = nullptr;  // in the list of the idle, as long as nobody uses it
    Entry* older = nullptr;
  };

  /// Keeps up to `most_bytes` registered.
  LruCache(std::shared_ptr<Registrar> registrar, Bytes most_bytes)
      : registrar_(std::move(registrar)), most_bytes_(most_bytes) {}

  /// The registration that covers the memory, made if need be, for whole pages. Give it back with
  /// put(). Errors: `already_exists` when one overlaps that is in use; the registrar's.
  [[nodiscard]] Result<Entry*> get(ByteSpan memory);

  void put(Entry& entry) noexcept;

 private:
  using Address = std::uintptr_t;
  Entry* find(Address begin, Bytes size) noexcept;
  Entry* use(Entry& entry) noexcept;
  Result<Entry*> slow_get(Address begin, Bytes size);
  Result<Registration> register_memory(ByteSpan memory);
  Result<void> absorb(Address& begin, Address& end);
  bool forget_oldest() noexcept;
  void forget(Entry& entry) noexcept;
  void leave_idle(Entry& entry) noexcept;
  void join_idle(Entry& entry) noexcept;

  std::shared_ptr<Registrar> registrar_;
  Bytes most_bytes_;
  std::mutex mutex_;
  std::map<Address, Entry> entries_;  // by where they begin; no two overlap
  Entry* newest_ = nullptr;           // of those that nobody uses
  Entry* oldest_ = nullptr;
  Bytes bytes_ = 0;
};

}  // namespace gantry::bench
