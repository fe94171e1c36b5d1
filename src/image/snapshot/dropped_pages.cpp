#include "image/snapshot/dropped_pages.hpp"

#include <algorithm>
#include <cassert>

namespace gantry::snapshot {
namespace {

constexpr std::uint64_t kBits = 64;

}  // namespace

DroppedPages::DroppedPages(std::uint64_t pages)
    : pages_(pages),
      words_(static_cast<std::uint64_t*>(std::calloc(pages / kBits + 1, sizeof(std::uint64_t)))) {
  pthread_rwlockattr_t kind{};
  ::pthread_rwlockattr_init(&kind);
  ::pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  ::pthread_rwlock_init(&lock_, &kind);
  ::pthread_rwlockattr_destroy(&kind);
}

Result<std::unique_ptr<DroppedPages>> DroppedPages::make(std::uint64_t pages) {
  std::unique_ptr<DroppedPages> made(new DroppedPages(pages));
  if (made->words_ == nullptr) return fail(Code::out_of_memory, "noting dropped pages");
  return made;
}

void DroppedPages::add(std::uint64_t page, std::uint64_t pages) noexcept {
  assert(is_locked_);  // D2
  const std::uint64_t end = page < pages_ ? page + std::min(pages, pages_ - page) : page;
  while (page < end) {
    const std::uint64_t bit = page % kBits, count = std::min(kBits - bit, end - page);
    words_.get()[page / kBits] |= (~std::uint64_t{0} >> (kBits - count)) << bit;
    page += count;
  }
  has_any_ = true;
}

bool DroppedPages::has(std::uint64_t page) const noexcept {
  return has_any_ && page < pages_ && (words_.get()[page / kBits] >> page % kBits & 1) != 0;
}

std::uint64_t DroppedPages::kept_from(std::uint64_t page, std::uint64_t pages) const noexcept {
  if (!has_any_) return pages;
  std::uint64_t kept = 0;
  while (kept < pages && !has(page + kept)) ++kept;
  return kept;
}

}  // namespace gantry::snapshot
