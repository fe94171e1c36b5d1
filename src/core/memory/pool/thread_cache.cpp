#include <pthread.h>

#include <algorithm>

#include "core/memory/pool/state.hpp"

// Finds the calling thread's cache of a pool. The thread and the pool both hold a cache; it
// outlives whichever ends first. A fork()ed child has none of its parent's pools.
namespace gantry {

// The attribute once more: where this is compiled together with its users it would be forgotten.
[[gnu::tls_model(
    "initial-exec")]] constinit thread_local std::array<HotCache, kHotCaches> hot_caches{};

namespace {

struct Mine {
  std::uint64_t pool;
  std::shared_ptr<ThreadCache> cache;
};

constinit thread_local bool thread_is_ending = false;

struct ThreadCaches {
  ~ThreadCaches() {
    thread_is_ending = true;
    hot_caches = {};
    for (const Mine& entry : mine) entry.cache->orphaned.store(true, std::memory_order_release);
  }
  // Of pools that have ended only our hold on the cache is left.
  void forget_the_dead() {
    std::erase_if(mine, [](const Mine& entry) { return entry.cache.use_count() == 1; });
  }
  std::vector<Mine> mine;
};

// Without it a child could take what its parent has, so then there are no caches.
bool forget_when_forked() noexcept {
  static const bool will = ::pthread_atfork(nullptr, nullptr, [] { hot_caches = {}; }) == 0;
  return will;
}
[[maybe_unused]] const bool kCachesAtLoad = forget_when_forked();  // base/os/fork.cpp

}  // namespace

ThreadCache* cache_of_this_thread(PoolState& pool) noexcept {
  if (thread_is_ending || !pool.fork_guard().is_this() || !forget_when_forked()) return nullptr;
  try {
    thread_local ThreadCaches caches;
    auto found = std::find_if(caches.mine.begin(), caches.mine.end(),
                              [&pool](const Mine& entry) { return entry.pool == pool.number(); });
    if (found == caches.mine.end()) {
      caches.forget_the_dead();
      caches.mine.reserve(caches.mine.size() + 1);
      caches.mine.push_back({pool.number(), pool.new_cache()});
      found = std::prev(caches.mine.end());
    }
    hot_caches[pool.number() % kHotCaches] = {pool.number(), found->cache.get()};
    return found->cache.get();
  } catch (const std::bad_alloc&) {
    return nullptr;  // the pool's common store serves, only slower
  }
}

}  // namespace gantry
