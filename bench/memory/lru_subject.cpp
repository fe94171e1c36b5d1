// A buffer of the heap's, and an implicit cache that knows whether it is registered.

#include <gantry/runtime.hpp>

#include "lru_cache.hpp"
#include "registrar_list.hpp"
#include "resident.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kSettlingTrips = 50;

class CachedHand {
 public:
  struct Held {
    ByteSpan bytes;
    LruCache::Entry* entry = nullptr;
    explicit operator bool() const noexcept { return entry != nullptr; }
  };
  explicit CachedHand(std::shared_ptr<LruCache> cache) : cache_(std::move(cache)) {}

  bool acquire(Bytes size, Held& held) {
    std::byte* const buffer = buffers_.take(size);
    if (buffer == nullptr) return failed({Code::out_of_memory, "no memory for a buffer", ""});
    *buffer = std::byte{1};
    const auto entry = cache_->get({buffer, size});
    if (!entry) return failed(entry.error());
    keep((*entry)->key.key + (*entry)->key.offset + static_cast<Bytes>(buffer - (*entry)->begin));
    held = {{buffer, size}, *entry};
    return true;
  }
  void release(Held& held) {
    cache_->put(*held.entry);
    buffers_.give(held.bytes.data(), held.bytes.size());
    held.entry = nullptr;
  }
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  bool failed(const Error& error) {
    error_ = error;
    return false;
  }

  ResidentBuffers buffers_;
  std::shared_ptr<LruCache> cache_;  // ends before the buffers do
  Error error_;
};

}  // namespace

Result<std::unique_ptr<Runner>> open_lru_cache(const Setup& setup) {
  auto registrar = registrar_of(setup.registrar);
  if (!registrar) return Unexpected(registrar.error());
  // As much as a device may hold for one process; enough for every pattern here.
  const Bytes most = probe_machine().memory_bytes / 2;
  const auto cache = std::make_shared<LruCache>(std::move(*registrar), most);
  auto runner = std::make_unique<PatternRunner<CachedHand>>(
      setup.pattern, setup.threads, setup.cpus, [&](unsigned) { return CachedHand(cache); });
  // Buffers of one heap class serve many sizes: until each has met its largest, looking up misses.
  const std::uint64_t settling = setup.pattern.kind == Pattern::Kind::random ? kSettlingTrips : 0;
  if (const auto settled = runner->run(settling); !settled) return Unexpected(settled.error());
  return runner;
}

}  // namespace gantry::bench
