#include "core/trace/end_trace.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/os/fault_answers.hpp"

namespace gantry::trace {

// ---- the memory of a ring ------------------------------------------------------------------

namespace {

struct Range {
  std::atomic<std::uintptr_t> from;  // 0: free; kTaken: not yet
  std::atomic<Bytes> bytes;
};
constexpr std::uintptr_t kTaken = 1;
constexpr std::size_t kMostRings = 4096;
std::array<Range, kMostRings> ranges{};

bool add(std::uintptr_t from, Bytes bytes) noexcept {
  for (Range& range : ranges) {
    std::uintptr_t free = 0;
    if (!range.from.compare_exchange_strong(free, kTaken, std::memory_order_acquire,  // [T]
                                            std::memory_order_relaxed))  // the next one, then
      continue;
    range.bytes.store(bytes, std::memory_order_relaxed);  // the address carries it
    range.from.store(from, std::memory_order_release);    // [R]
    return true;
  }
  return false;
}

void remove(std::uintptr_t from) noexcept {
  for (Range& range : ranges)
    if (range.from.load(std::memory_order_relaxed) == from)   // its owner's own
      return range.from.store(0, std::memory_order_release);  // [T]
}

bool put_own_memory(std::uintptr_t from, Bytes bytes) noexcept {
  void* const at = reinterpret_cast<void*>(from);  // NOLINT(performance-no-int-to-ptr): it was one
  return ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) != MAP_FAILED;
}

// Runs in the handler.
bool replace(int signal, siginfo_t* info, void*) noexcept {
  if (signal != SIGBUS || info->si_code != BUS_ADRERR) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Range& range : ranges) {
    const std::uintptr_t from = range.from.load(std::memory_order_acquire);  // [R]
    const Bytes bytes = range.bytes.load(std::memory_order_acquire);
    const bool is_ours = from > kTaken && address >= from && address - from < bytes;
    if (!is_ours || range.from.load(std::memory_order_relaxed) != from) continue;  // I2
    const int kept = errno;
    const bool is_there = put_own_memory(from, bytes);
    errno = kept;
    return is_there;
  }
  return false;
}

}  // namespace

Result<RingMemory> RingMemory::map(int file, Bytes bytes) {
  static const bool is_answered = answer_faults(&replace);
  if (!is_answered) return fail(Code::unsupported, "no handler of SIGBUS could be installed");
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  if (at == MAP_FAILED) return fail_errno("mapping a ring of events");
  RingMemory memory(at, bytes);
  memory.is_known_ = add(reinterpret_cast<std::uintptr_t>(at), bytes);  // I1
  if (!memory.is_known_)
    return fail(Code::unsupported, "more rings of events than a process can have");
  return memory;
}

RingMemory::RingMemory(RingMemory&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)),
      bytes_(other.bytes_),
      is_known_(std::exchange(other.is_known_, false)) {}

bool RingMemory::retire() noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(at_);
  if (!is_known_ || !put_own_memory(from, bytes_)) return false;
  is_known_ = false;
  remove(from);  // I1: no write of it can fault any more
  return true;
}

RingMemory::~RingMemory() {
  if (at_ == nullptr) return;
  if (is_known_) remove(reinterpret_cast<std::uintptr_t>(at_));
  ::munmap(at_, bytes_);
}

// ---- the ring of an end --------------------------------------------------------------------

namespace {

constexpr Bytes kMostOfAProcess = Bytes{64} << 20;  // but for rings of kLeastEvents
constexpr std::uint32_t kLeastEvents = 256;

std::atomic<std::uint64_t> rings_made{0};
std::atomic<Bytes> bytes_mapped{0};

constexpr Bytes size_of(std::uint64_t events) noexcept {
  return kHeaderBytes + events * sizeof(Ring::Cell);
}

/// At most an eighth of what this process has left for rings: who comes late has some, too.
std::uint32_t events_of_next(std::uint32_t wanted) noexcept {
  const Bytes left =
      kMostOfAProcess - std::min(kMostOfAProcess, bytes_mapped.load(std::memory_order_relaxed));
  const auto most = static_cast<std::uint32_t>(left / 8 / sizeof(Ring::Cell));
  return std::bit_ceil(std::min(wanted, std::max(kLeastEvents, std::bit_floor(most))));
}

/// What read_ticks() is where a ring has ticks.
std::uint64_t counter() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return read_ticks();
#endif
}

std::string first_line(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): as directory.cpp
  return value == nullptr ? "" : value;
}

/// The stage of a run has its name from there, with its replica if there are several; all others
/// have theirs from the kernel.
std::string process_name() {
  std::string stage = variable("GANTRY_STAGE");
  const std::string replicas = variable("GANTRY_REPLICAS");
  if (!stage.empty() && (replicas.empty() || replicas == "1")) return stage;
  if (!stage.empty()) return stage + "." + variable("GANTRY_REPLICA");
  return first_line("/proc/self/comm");
}

template <std::size_t size>
void copy_text(std::array<char, size>& into, std::string_view text) noexcept {
  text.copy(into.data(), size - 1);
}

}  // namespace

[[gnu::tls_model("initial-exec")]] constinit thread_local MessageId last_received;

EndTrace::Mapped::Mapped(std::uint64_t run_of, RingMemory mapped, std::uint32_t events) noexcept
    : run(run_of),
      has_ticks(tsc_is_clock()),
      memory(std::move(mapped)),
      header(static_cast<RingHeader*>(memory.data())),
      ring(header->head,
           {reinterpret_cast<Ring::Cell*>(static_cast<std::byte*>(memory.data()) + kHeaderBytes),
            events}) {
  bytes_mapped.fetch_add(memory.size(), std::memory_order_relaxed);  // a rough sum
}
EndTrace::Mapped::~Mapped() {
  if (is_counted) bytes_mapped.fetch_sub(memory.size(), std::memory_order_relaxed);
}
// Another thread may still write there: the addresses stay.
void EndTrace::Mapped::retire() noexcept {
  GANTRY_ASSERT(is_counted);  // once
  if (!memory.retire()) return;
  is_counted = false;
  bytes_mapped.fetch_sub(memory.size(), std::memory_order_relaxed);
}

EndTrace::EndTrace() noexcept = default;
EndTrace::~EndTrace() {
  Mapped* const ring = ring_.load(std::memory_order_relaxed);  // nobody else is left
  if (ring != nullptr && fork_guard_.is_this())
    ring->header->closed.store(1, std::memory_order_release);
}

void EndTrace::join(const std::string& directory, EndKind kind, std::string_view name) {
  kind_ = kind;
  name_ = name;
  scope_ = Scope::of(directory);
}

EndTrace::Mapped* EndTrace::any_ring() noexcept {
  const std::uint64_t run = scope_ == nullptr ? 0 : scope_->run();
  if (run == 0) return nullptr;
  Mapped* const ring = ring_.load(std::memory_order_acquire);  // [M]
  return ring == nullptr || ring->run != run ? slow_ring(run) : ring;
}

void EndTrace::slow_write(const Ring::Event& event) noexcept {
  if (Mapped* const ring = any_ring()) ring->ring.write(event);
}

void EndTrace::falls_asleep(std::uint64_t began, Awaited awaited, std::int32_t peer) noexcept {
  Mapped* const ring = fork_guard_.is_this() ? any_ring() : nullptr;
  if (ring == nullptr) return;
  ring->header->waits_for.store(
      what(EventKind::wait, static_cast<std::uint8_t>(awaited), static_cast<std::uint32_t>(peer)),
      std::memory_order_relaxed);  // the time carries it
  ring->header->waits_since.store(began, std::memory_order_release);
}

void EndTrace::wakes_up() noexcept {
  Mapped* const ring = ring_.load(std::memory_order_acquire);  // [M]
  if (ring != nullptr)
    ring->header->waits_since.store(0, std::memory_order_relaxed);  // stands alone
}

[[gnu::noinline]] void EndTrace::slow_sent_small(std::uint64_t sequence, Bytes bytes) noexcept {
  const std::uint64_t now = read_ticks();
  sent(now, now, sequence, bytes);
}

// Without a call in the way of the usual case, for which registers would have to be saved: so the
// unusual one is not compiled in.
void EndTrace::sent_small(std::uint64_t sequence, Bytes bytes) noexcept {
  Mapped* const ring = ring_.load(std::memory_order_acquire);  // [M]
  if (ring == nullptr || ring->run != scope_->run() || !ring->has_ticks) [[unlikely]]
    return slow_sent_small(sequence, bytes);
  ring->ring.write({counter(), 0, what(EventKind::send), sequence, bytes, last_received.channel,
                    last_received.sequence});
}

// A character of UTF-8 is kept whole or not at all.
void EndTrace::spanned(std::uint64_t begin, std::string_view name) noexcept {
  constexpr unsigned kMarks = 0xC0, kGoesOn = 0x80;
  std::size_t size = std::min(name.size(), Span::kMostName);
  while (size > 0 && size < name.size() && (static_cast<unsigned>(name[size]) & kMarks) == kGoesOn)
    --size;
  Ring::Event event{begin, read_ticks() - begin, what(EventKind::span)};
  name.copy(reinterpret_cast<char*>(&event[kSequence]), size);
  write(event);
}

void EndTrace::worked(const Worked& what) noexcept {
  const auto ns = [](auto span) {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(span).count());
  };
  ShortText text{};
  what.text.copy(text.data(), text.size());
  Ring::Event event{ns(what.begin.time_since_epoch()), ns(what.end - what.begin),
                    EndTrace::what(what.kind, what.detail, what.number) | kIsText};
  event[kBytes] = what.bytes;
  std::memcpy(&event[kSequence], text.data(), sizeof(std::uint64_t));
  std::memcpy(&event[kCause], &text[sizeof(std::uint64_t)], 2 * sizeof(std::uint64_t));
  write(event);
}

EndTrace::Mapped* EndTrace::slow_ring(std::uint64_t run) noexcept {
  const std::lock_guard held(making_);
  Mapped* const newest = ring_.load(std::memory_order_relaxed);  // under the lock
  if (newest != nullptr && newest->run == run) return newest;
  if (failed_run_ == run) return nullptr;
  if (newest != nullptr && newest->is_counted) newest->retire();
  auto made = guarded([&]() -> Result<Mapped*> {
    GANTRY_ASSIGN(auto ring, make_ring(run));
    made_.push_back(std::move(ring));
    return made_.back().get();
  });
  if (!made) failed_run_ = run;
  if (made) ring_.store(*made, std::memory_order_release);  // [M]
  return made.value_or(nullptr);
}

// With all of its memory, so that the disk has room for each page. The mode keeps others from
// cutting the file off by mistake.
Result<std::unique_ptr<EndTrace::Mapped>> EndTrace::make_ring(std::uint64_t run) const {
  const std::uint32_t events = events_of_next(scope_->events());
  const std::uint64_t start_time = start_time_of(::getpid());
  const std::string file =
      fmt::format("{}-{}-{}", ::getpid(), start_time,
                  rings_made.fetch_add(1, std::memory_order_relaxed));  // any number will do
  GANTRY_ASSIGN(const Fd folder, scope_->open_folder());
  const Fd memory(::openat(folder.get(), file.c_str(),
                           O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!memory) return fail_errno(file);
  int no_room = EINTR;
  while (no_room == EINTR)  // a timer's, perhaps
    no_room = ::posix_fallocate(memory.get(), 0, static_cast<off_t>(size_of(events)));
  if (no_room != 0) {
    static_cast<void>(::ftruncate(memory.get(), kNoRoomBytes));  // the recording says so
    return fail_errno(file, no_room);
  }
  auto mapped = RingMemory::map(memory.get(), size_of(events));
  if (!mapped) static_cast<void>(::ftruncate(memory.get(), kNoRoomBytes));  // as above
  if (!mapped) return tl::unexpected(std::move(mapped).error());
  auto* const header = new (mapped->data()) RingHeader{};
  header->version = kVersion;
  header->cells = events;
  header->run = run;
  header->start_time = start_time;
  header->pid = ::getpid();
  header->kind = static_cast<std::uint8_t>(kind_);
  copy_text(header->process, process_name());
  copy_text(header->name, name_);
  auto ring = std::make_unique<Mapped>(run, *std::move(mapped), events);
  header->has_ticks = ring->has_ticks ? 1 : 0;
  header->channel.store(channel_, std::memory_order_relaxed);  // the magic carries it
  std::atomic_ref(header->magic).store(RingHeader::kMagic, std::memory_order_release);
  return ring;
}

EndTrace* RoamingTrace::get() noexcept {
  const bool is_ours = scope_ != nullptr && fork_guard_.is_this();
  if (is_ours && scope_->run() != 0) return trace_.get();
  auto made = guarded([&]() -> Result<EndTrace*> {
    auto scope = Scope::any_on();
    // One may be over without that its process has noticed.
    for (; scope != nullptr; scope = Scope::any_on())
      if (scope->look(); scope->run() != 0) break;
    if (scope == nullptr) return nullptr;
    if (!is_ours || scope != scope_) {
      scope_.reset();
      fork_guard_ = ForkGuard();
      trace_ = std::make_unique<EndTrace>();
      trace_->join(scope->directory(), kind_, name_);
      scope_ = std::move(scope);
    }
    return trace_.get();
  });
  return made.value_or(nullptr);
}

void RoamingTrace::worked(const EndTrace::Worked& what) noexcept {
  if (EndTrace* const trace = get()) trace->worked(what);
}

std::uint64_t channel_of(int page_descriptor) noexcept {
  struct stat facts{};
  return ::fstat(page_descriptor, &facts) == 0 ? facts.st_ino : 0;
}

// ---- spans ---------------------------------------------------------------------------------

std::uint64_t begin_span() noexcept {
  Scope::keep_own();
  const std::uint64_t now = ticks_and_look();
  return is_on() ? now : 0;
}

void end_span(std::uint64_t began, std::string_view name) noexcept {
  if (began == 0 || !is_on()) [[likely]]
    return;
  static_cast<void>(guarded([&]() -> Result<void> {
    thread_local RoamingTrace mine(EndKind::thread, first_line("/proc/thread-self/comm"));
    if (EndTrace* const trace = mine.get()) trace->spanned(began, name);
    return {};
  }));
}

}  // namespace gantry::trace
