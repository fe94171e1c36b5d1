#include "core/trace/tracer.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <vector>

#include "core/base/os/runtime_directory.hpp"

namespace gantry::trace {
namespace {

// A tenth to half a second of any counter there is: Recording::kNotice. Without a calibrated
// rate, since measuring it takes longer than all the looks of a minute.
constexpr std::uint64_t kLookEvery = std::uint64_t{1} << 29;

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

bool is_ours_alone(const Fd& folder) noexcept {
  struct stat facts{};
  return ::fstat(folder.get(), &facts) == 0 && facts.st_uid == ::geteuid() &&
         (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

struct Scopes {
  std::mutex mutex;
  std::vector<std::weak_ptr<Scope>> all;
  std::shared_ptr<Scope> own;  // of the environment's directory, once it was asked for
};

Scopes& scopes();

// Never destroyed: ends of static storage may outlive it. A fork waits for who is in there, so that
// the child finds it whole and open.
Scopes* make_scopes() {
  ::pthread_atfork([] { scopes().mutex.lock(); }, [] { scopes().mutex.unlock(); },
                   [] { scopes().mutex.unlock(); });
  return new Scopes;  // NOLINT(cppcoreguidelines-owning-memory)
}

Scopes& scopes() {
  static Scopes* const made = make_scopes();
  return *made;
}
[[maybe_unused]] const Scopes& kScopesAtLoad = scopes();  // base/os/fork.cpp

std::vector<std::shared_ptr<Scope>> living() {
  Scopes& known = scopes();
  const std::lock_guard held(known.mutex);
  std::erase_if(known.all, [](const auto& scope) { return scope.expired(); });
  std::vector<std::shared_ptr<Scope>> all;
  for (const auto& scope : known.all)
    if (auto lives = scope.lock()) all.push_back(std::move(lives));
  return all;
}

// Somebody sends a message meanwhile: nothing is allocated, and nobody waited for.
void look_at_all() noexcept {
  Scopes& known = scopes();
  const std::unique_lock held(known.mutex, std::try_to_lock);
  if (!held) return;
  bool any = false;
  for (const auto& scope : known.all) {
    const auto lives = scope.lock();
    if (lives == nullptr) continue;
    lives->look();
    any = any || lives->run() != 0;
  }
  detail::is_on.store(any, std::memory_order_relaxed);  // see is_on()
}

}  // namespace

Control control_in(int folder) noexcept {
  const Fd file(::openat(folder, kControlFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  Control control{};
  control.magic = 0;
  if (!file || ::pread(file.get(), &control, sizeof control, 0) != sizeof control ||
      control.magic != Control::kMagic || control.version != kVersion || control.events == 0 ||
      control.events > RecordingOptions::kMostEvents)
    return {};
  return control;
}

std::atomic<bool> detail::is_on{false};
std::atomic<std::uint64_t> detail::next_look{0};
std::atomic<std::int64_t> detail::next_timed_look{0};
std::atomic<bool> detail::has_own{false};

// One thread looks; the others go on.
void detail::slow_look(std::uint64_t ticks) noexcept {
  std::uint64_t due = next_look.load(std::memory_order_relaxed);
  const bool is_ours =
      static_cast<std::int64_t>(ticks - due) >= 0 &&
      next_look.compare_exchange_strong(due, ticks + kLookEvery, std::memory_order_relaxed);
  if (!is_ours) return;
  const int kept = errno;  // who looks is in the middle of something else
  look_at_all();
  errno = kept;
}

// Two threads may do so at once: slow_look() takes one.
void detail::slow_timed_look(std::int64_t now_ns) noexcept {
  constexpr std::int64_t kEveryNs = 50'000'000;
  next_timed_look.store(now_ns + kEveryNs, std::memory_order_relaxed);
  look(read_ticks());
}

void detail::slow_keep_own() noexcept {
  static_cast<void>(guarded([]() -> Result<void> {
    const std::string directory = runtime_directory_path();
    const auto own = directory.starts_with('/') ? Scope::of(directory) : nullptr;
    const std::lock_guard held(scopes().mutex);
    scopes().own = own;
    has_own.store(true, std::memory_order_relaxed);  // see keep_own()
    return {};
  }));
}

Scope::Scope(std::string directory)
    : directory_(std::move(directory)), folder_(directory_ + "/" + kFolder) {}

std::shared_ptr<Scope> Scope::of(const std::string& directory) {
  std::shared_ptr<Scope> scope;
  for (const auto& known : living())
    if (known->directory_ == directory) scope = known;
  if (scope == nullptr) {
    scope = std::make_shared<Scope>(directory);  // two of one directory do no harm
    const std::lock_guard held(scopes().mutex);
    scopes().all.emplace_back(scope);
  }
  scope->look();
  if (scope->run() != 0) detail::is_on.store(true, std::memory_order_relaxed);  // see is_on()
  return scope;
}

std::shared_ptr<Scope> Scope::any_on() noexcept {
  try {
    for (auto& scope : living())
      if (scope->run() != 0) return scope;
    return nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;  // as if nobody recorded
  }
}

void Scope::look() noexcept {
  // Not by open(3), which is a point of cancellation: half of what the look costs whoever sends.
  const Fd folder(static_cast<int>(::syscall(SYS_openat, AT_FDCWD, folder_.c_str(), kFolderFlags)));
  Control control{};
  if (folder && is_ours_alone(folder)) control = control_in(folder.get());  // it seldom is there
  const bool is_valid = control.run != 0 && monotonic_ns() < control.until_ns;
  if (is_valid) events_.store(control.events, std::memory_order_relaxed);  // run_ carries it
  run_.store(is_valid ? control.run : 0, std::memory_order_release);
}

Result<Fd> Scope::open_folder() const {
  return open_trace_folder(directory_);
}

Result<Fd> open_trace_folder(const std::string& directory) {
  const std::string path = directory + "/" + kFolder;
  Fd folder(::open(path.c_str(), kFolderFlags));
  if (!folder) return fail_errno(path);
  if (is_ours_alone(folder)) return folder;
  return fail(Code::permission_denied, path + ": belongs to another user, or others can use it",
              "remove it");
}

}  // namespace gantry::trace
