#include "lru_cache.hpp"

#include <algorithm>
#include <utility>

#include "../support/system/buffer.hpp"
#include "../support/system/posix.hpp"

namespace gantry::bench {

Result<LruCache::Entry*> LruCache::get(ByteSpan memory) {
  const auto begin = reinterpret_cast<Address>(memory.data());
  const std::lock_guard lock(mutex_);
  Entry* const entry = find(begin, memory.size());
  return entry != nullptr ? use(*entry) : slow_get(begin, memory.size());
}

LruCache::Entry* LruCache::find(Address begin, Bytes size) noexcept {
  const auto after = entries_.upper_bound(begin);
  if (after == entries_.begin()) return nullptr;
  const auto& [start, entry] = *std::prev(after);
  return begin + size <= start + entry.size ? &std::prev(after)->second : nullptr;
}

LruCache::Entry* LruCache::use(Entry& entry) noexcept {
  if (entry.users++ == 0) leave_idle(entry);
  return &entry;
}

void LruCache::put(Entry& entry) noexcept {
  const std::lock_guard lock(mutex_);
  if (--entry.users == 0) join_idle(entry);
}

void LruCache::leave_idle(Entry& entry) noexcept {
  (entry.newer != nullptr ? entry.newer->older : newest_) = entry.older;
  (entry.older != nullptr ? entry.older->newer : oldest_) = entry.newer;
  entry.newer = entry.older = nullptr;
}

void LruCache::join_idle(Entry& entry) noexcept {
  entry.older = std::exchange(newest_, &entry);
  (entry.older != nullptr ? entry.older->newer : oldest_) = &entry;
}

Result<LruCache::Entry*> LruCache::slow_get(Address begin, Bytes size) {
  const Address last = begin + size;
  begin -= begin % page_bytes();
  Address end = begin + whole_pages(last - begin);
  if (const auto absorbed = absorb(begin, end); !absorbed) return Unexpected(absorbed.error());
  while (bytes_ + (end - begin) > most_bytes_ && forget_oldest()) {
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): rounded to pages
  const ByteSpan memory(reinterpret_cast<std::byte*>(begin), end - begin);
  auto registration = register_memory(memory);
  if (!registration) return Unexpected(registration.error());
  const auto key = registration->key();
  if (!key) return Unexpected(key.error());
  Entry& entry = entries_[begin];
  entry.registration = std::move(*registration);
  entry.key = *key;
  entry.begin = memory.data();
  entry.size = memory.size();
  entry.users = 1;
  bytes_ += entry.size;
  return &entry;
}

/// A device that can take no more takes one more when it may drop another.
Result<Registration> LruCache::register_memory(ByteSpan memory) {
  auto registration = registrar_->register_memory(memory);
  while (!registration && registration.error().code == Code::out_of_memory && forget_oldest())
    registration = registrar_->register_memory(memory);
  return registration;
}

/// Replaces entries that overlap the range by one that covers them as well.
Result<void> LruCache::absorb(Address& begin, Address& end) {
  for (auto next = entries_.lower_bound(end); next != entries_.begin();) {
    Entry& entry = std::prev(next)->second;
    const auto start = std::prev(next)->first;
    if (start + entry.size <= begin) break;
    if (entry.users != 0)
      return Unexpected({Code::already_exists, "lru-cache: overlaps one that is in use", ""});
    begin = std::min(begin, start);
    end = std::max(end, start + entry.size);
    forget(entry);
    next = entries_.lower_bound(end);
  }
  return {};
}

bool LruCache::forget_oldest() noexcept {
  if (oldest_ == nullptr) return false;
  forget(*oldest_);
  return true;
}

/// Needs an entry that nobody uses.
void LruCache::forget(Entry& entry) noexcept {
  leave_idle(entry);
  bytes_ -= entry.size;
  entries_.erase(reinterpret_cast<Address>(entry.begin));
}

}  // namespace gantry::bench
