#include "image/snapshot/fault_source.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <shared_mutex>

#include "core/base/assert.hpp"
#include "core/base/os/fault_answers.hpp"
#include "core/base/os/userfaultfd.hpp"

// Of a kernel newer than the headers: Linux 6.6.
#ifndef UFFD_FEATURE_POISON
#define UFFD_FEATURE_POISON (1 << 14)
#define UFFDIO_POISON _IOWR(UFFDIO, 0x08, struct uffdio_poison)
struct uffdio_poison {  // NOLINT: the kernel's
  uffdio_range range;
  __u64 mode;
  __s64 updated;
};
#endif

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
  GANTRY_DEBUG_ASSERT(is_locked_);  // D2
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

namespace {

constexpr std::string_view kBefore = "gantry: snapshot: page ";

/// Read by the handler of a signal, so it has no memory of its own.
struct Place {
  std::atomic<bool> is_taken{false};
  std::atomic<std::uintptr_t> from{0};  // 0: there is nothing yet. [P] What follows was written
  Bytes bytes = 0;
  int signal = 0;
  std::array<char, 1024> text{};
  std::size_t text_bytes = 0;
};
std::array<Place, DeadMemory::kMost> places;

void append(Place& place, std::string_view text) noexcept {
  const std::size_t some = std::min(text.size(), place.text.size() - place.text_bytes);
  std::copy_n(text.begin(), some, place.text.begin() + place.text_bytes);
  place.text_bytes += some;
}

void say(const Place& place, std::uint64_t page) noexcept {
  std::array<char, kBefore.size() + 20 + sizeof place.text + 1> line{};
  char* at = std::ranges::copy(kBefore, line.data()).out;
  at = std::to_chars(at, at + 20, page).ptr;
  at = std::copy_n(place.text.begin(), place.text_bytes, at);
  *at++ = '\n';
  static_cast<void>(
      !::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(at - line.data())));
}

void say_why(int signal, const siginfo_t* info) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Place& place : places) {
    const std::uintptr_t from = place.from.load(std::memory_order_acquire);  // [P]
    if (from == 0 || address < from || address - from >= place.bytes || signal != place.signal)
      continue;
    return say(place, (address - from) / kPageBytes);
  }
}

}  // namespace

void DeadMemory::tell(ByteSpan memory, int signal, const Error& why) noexcept {
  for (place_ = 0; place_ < kMost; ++place_)
    if (!places[place_].is_taken.exchange(true, std::memory_order_acquire)) break;  // [T]
  if (place_ == kMost) return;
  Place& place = places[place_];
  place.bytes = memory.size();
  place.signal = signal;
  place.text_bytes = 0;
  append(place, " can never be there: ");
  append(place, why.message);
  if (!why.hint.empty()) append(place, "; ");
  append(place, why.hint);
  place.from.store(reinterpret_cast<std::uintptr_t>(memory.data()),
                   std::memory_order_release);  // [P]
  tell_of_faults(say_why);
}

DeadMemory::~DeadMemory() {
  if (place_ == kMost) return;
  places[place_].from.store(0, std::memory_order_relaxed);  // no handler runs: the memory is ours
  places[place_].is_taken.store(false, std::memory_order_release);  // [T]
}

namespace {

constexpr Bytes kLeastPiece = Bytes{2} << 20;  // that is let go of alone
tl::unexpected<Error> refused(int error) {
  constexpr const char* kWhat = "userfaultfd, for memory that is used before it is there";
  if (error == ENOSYS || error == EINVAL)
    return fail(Code::unsupported, fmt::format("{}: this kernel does not have it", kWhat),
                "Linux 5.14 or newer is needed, with CONFIG_USERFAULTFD; load everything first");
  return fail_errno(kWhat, error, fmt::format("{}; or own_accesses_only", kUserfaultMend));
}

Result<Fd> open_any(bool own_accesses_only) {
  Fd fd = open_userfaultfd();
  const int error = errno;
  if (!fd && own_accesses_only)
    fd.reset(static_cast<int>(::syscall(SYS_userfaultfd, kUserfaultFlags | UFFD_USER_MODE_ONLY)));
  if (!fd) return refused(error);
  return fd;
}

}  // namespace

Result<FaultSource> FaultSource::open(bool own_accesses_only) {
  FaultSource source;
  GANTRY_ASSIGN(source.fd_, open_any(own_accesses_only));
  source.has_poison_ = agree_on_userfaults(source.fd_, kUserfaultFeatures | UFFD_FEATURE_POISON);
  if (source.has_poison_) return source;
  GANTRY_ASSIGN(source.fd_, open_any(own_accesses_only));  // it can be asked once
  if (!agree_on_userfaults(source.fd_, kUserfaultFeatures)) return refused(EINVAL);
  return source;
}

Result<void> FaultSource::watch(const Memory& memory) {
  memory_ = memory.mapped();
  is_shared_ = memory.kind() == Memory::Kind::shared;
  GANTRY_ASSIGN(dropped_, DroppedPages::make(is_shared_ ? 0 : memory.pages()));
  const std::uint64_t minor = is_shared_ ? UFFDIO_REGISTER_MODE_MINOR : 0;
  uffdio_register request{{reinterpret_cast<std::uintptr_t>(memory_.data()), memory_.size()},
                          UFFDIO_REGISTER_MODE_MISSING | minor,
                          0};
  if (::ioctl(fd_.get(), UFFDIO_REGISTER, &request) != 0)
    return fail_errno("userfaultfd: watching memory");
  return {};
}

// The kernel wakes first and then lets go of the memory: who touches a page in between sleeps on.
// Once it has let go, nobody falls asleep any more. Who drops pages meanwhile, and waits for that
// to be read, goes on when the descriptor is closed.
void FaultSource::ignore() noexcept {
  if (dropped_ == nullptr || !fd_) return;  // it watched nothing, or has ended
  let_go(0, memory_.size());
  wake(0, memory_.size());
  const std::lock_guard lock(*dropped_);  // D3
  fd_.reset();
}

uffdio_range FaultSource::range_of(Bytes at, Bytes bytes) const noexcept {
  return {reinterpret_cast<std::uintptr_t>(memory_.data() + at), bytes};
}

// All at once, unless the program has something of its own there by now, which the kernel refuses.
// Of a small piece the closing lets go, unless a child of fork() has the descriptor, too.
void FaultSource::let_go(Bytes at, Bytes bytes) noexcept {
  uffdio_range range = range_of(at, bytes);
  if (asks(UFFDIO_UNREGISTER, range) || bytes <= kLeastPiece) return;
  const Bytes half = bytes / kPageBytes / 2 * kPageBytes;
  let_go(at, half);
  let_go(at + half, bytes - half);
}

std::span<const Bytes> FaultSource::take(std::array<Bytes, kMostTaken>& into) noexcept {
  std::array<uffd_msg, kMostTaken> messages;
  const auto base = reinterpret_cast<std::uintptr_t>(memory_.data());
  std::size_t touched = 0;
  const std::lock_guard lock(*dropped_);  // D2
  const ssize_t got = ::read(fd_.get(), messages.data(), sizeof messages);
  for (std::size_t i = 0; got > 0 && i < static_cast<std::size_t>(got) / sizeof(uffd_msg); ++i) {
    const auto& remove = messages[i].arg.remove;
    if (messages[i].event == UFFD_EVENT_PAGEFAULT)
      into[touched++] = messages[i].arg.pagefault.address - base;
    else if (messages[i].event == UFFD_EVENT_REMOVE && !is_shared_ && remove.start >= base)
      dropped_->add((remove.start - base) / kPageBytes, (remove.end - remove.start) / kPageBytes);
  }
  return std::span(into).first(touched);
}

// Calls until all is done. `call` returns the bytes it did, or -1 and errno; what is there already
// is left out, page by page; so are calls across a border where the program has split the mapping
// (mprotect, mlock, madvise), and pages where it has another one by now or none (munmap, MAP_FIXED,
// as allocators give memory back), on which nobody sleeps. Returns 0 or an errno value; 0, too, if
// nothing is watched any more.
template <class Call>
int FaultSource::each(Bytes at, Bytes bytes, WhileDropping what, Dropped dropped,
                      Call call) noexcept {
  const Bytes end = at + bytes;
  GANTRY_DEBUG_ASSERT(at % kPageBytes == 0);
  GANTRY_DEBUG_ASSERT(end <= memory_.size());
  for (Bytes most = bytes; at < end;) {
    const auto [done, error] = try_once(at, std::min(most, end - at), dropped, call);
    if (done > 0) {
      at += static_cast<Bytes>(done);
    } else if (error == ENOENT && most > kPageBytes) {
      most = kPageBytes;
    } else if (error == EEXIST || error == ENOENT) {
      wake(at, kPageBytes);
      at += kPageBytes;
    } else if (error == EAGAIN && what == WhileDropping::wake) {
      wake(at, end - at);
      return 0;
    } else if (error == EAGAIN) {
      ::sched_yield();
    } else if (error != EINTR) {
      return error == EBADF ? 0 : error;  // D3
    }
  }
  return 0;
}

// The bytes that `call` did, or what errno said.
template <class Call>
std::pair<std::int64_t, int> FaultSource::try_once(Bytes at, Bytes bytes, Dropped dropped,
                                                   Call call) noexcept {
  const std::shared_lock lock(*dropped_);
  if (dropped == Dropped::left_out)
    bytes = kPageBytes * dropped_->kept_from(at / kPageBytes, bytes / kPageBytes);
  if (bytes == 0) return {-1, EEXIST};
  const std::int64_t done = call(at, bytes);
  return {done, errno};
}

void FaultSource::wake(Bytes at, Bytes bytes) noexcept {
  const std::shared_lock lock(*dropped_);
  uffdio_range range = range_of(at, bytes);
  static_cast<void>(asks(UFFDIO_WAKE, range));
}

Result<void> FaultSource::copy(Bytes to, ConstByteSpan from) {
  const auto copy = [&](Bytes at, Bytes left) -> std::int64_t {
    uffdio_copy request{reinterpret_cast<std::uintptr_t>(memory_.data() + at),
                        reinterpret_cast<std::uintptr_t>(from.data() + (at - to)), left, 0, 0};
    return asks(UFFDIO_COPY, request) ? static_cast<std::int64_t>(left) : request.copy;
  };
  const int error = each(to, from.size(), WhileDropping::wait, Dropped::left_out, copy);
  if (error != 0) return fail_errno("userfaultfd: making pages", error);
  return {};
}

Result<void> FaultSource::make_zero(Bytes at, Bytes bytes, WhileDropping what) {
  const int error =
      each(at, bytes, what, Dropped::as_others, [&](Bytes from, Bytes left) -> std::int64_t {
        uffdio_zeropage request{range_of(from, left), 0, 0};
        return asks(UFFDIO_ZEROPAGE, request) ? static_cast<std::int64_t>(left) : request.zeropage;
      });
  if (error != 0) return fail_errno("userfaultfd: making pages", error);
  return {};
}

Result<void> FaultSource::map(Bytes at, Bytes bytes, WhileDropping what) {
  // What is there is mapped: only its waiters wake.
  if (!is_shared_) return make_zero(at, bytes, what);
  const int error =
      each(at, bytes, what, Dropped::as_others, [&](Bytes from, Bytes left) -> std::int64_t {
        uffdio_continue request{range_of(from, left), 0, 0};
        return asks(UFFDIO_CONTINUE, request) ? static_cast<std::int64_t>(left) : request.mapped;
      });
  if (error == EFAULT) return make_zero(at, bytes, what);  // the memfd has none there
  if (error != 0) return fail_errno("userfaultfd: mapping pages", error);
  return {};
}

// While somebody drops pages those who sleep there touch them again, and are answered then.
void FaultSource::poison(Bytes at, Bytes bytes) noexcept {
  const auto poison = [&](Bytes from, Bytes left) -> std::int64_t {
    uffdio_poison request{range_of(from, left), 0, 0};
    return asks(UFFDIO_POISON, request) ? static_cast<std::int64_t>(left) : request.updated;
  };
  const int error =
      has_poison_ ? each(at, bytes, WhileDropping::wake, Dropped::left_out, poison) : EINVAL;
  if (error == 0) return;
  if (::mprotect(memory_.data() + at, bytes, PROT_NONE) == 0) return wake(at, bytes);
  ::mprotect(memory_.data(), memory_.size(), PROT_NONE);  // more mappings than there may be
  wake(0, memory_.size());
}

}  // namespace gantry::snapshot
