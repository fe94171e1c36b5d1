#include "run/process/run_directory.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <gantry/channel.hpp>

#include "errors.hpp"

namespace gantry::run {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLockTime{5};
constexpr std::chrono::seconds kSweepTime{1};  // the next run sweeps what is left
constexpr const char* kBaseHint = "set GANTRY_DIR to a directory you can write to";

bool lock(const Descriptor& file, int operation) {
  int result = 0;
  do {
    result = ::flock(file.get(), operation);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

/// Held while run directories come and go, so that nobody takes a new one for a dead one. The
/// library holds the same lock while channels come and go. Nobody waits for ever for a process that
/// was stopped inside.
Result<Descriptor> lock_base(const std::string& base, const cli::Interrupt& interrupt,
                             std::chrono::seconds patience) {
  constexpr std::chrono::milliseconds kAskAgain{1};  // flock() has no time limit
  const Deadline deadline = Deadline::after(patience);
  Descriptor directory(::open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  while (!lock(directory, LOCK_EX | LOCK_NB)) {
    if (errno != EWOULDBLOCK) return tl::unexpected(cli::system_error(base, errno, kBaseHint));
    if (deadline.passed())
      return tl::unexpected(Error{Code::timed_out, base + ": another process keeps it locked",
                                  "end the process that holds it (fuser -v " + base + ")"});
    const auto waited = cli::wait_ready(-1, 0, interrupt, Deadline::after(kAskAgain));
    if (!waited && waited.error().code != Code::timed_out) return tl::unexpected(waited.error());
  }
  return directory;
}

Descriptor open_lock_file(const std::string& path, int flags) {
  return Descriptor(::open(fmt::format("{}/{}", path, kRunFile).c_str(),
                           O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600));
}

bool is_own_directory(const std::string& path) {
  struct stat facts{};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == ::geteuid();
}

bool is_dead(const std::string& path) {
  const Descriptor file = open_lock_file(path, 0);
  return file ? lock(file, LOCK_EX | LOCK_NB) : errno == ENOENT;
}

}  // namespace

Result<RunDirectory> RunDirectory::create(const std::string& base, std::string_view pipeline,
                                          const cli::Interrupt& interrupt) {
  const Result<Descriptor> base_lock = lock_base(base, interrupt, kLockTime);
  if (!base_lock) return tl::unexpected(base_lock.error());
  std::string path = fmt::format("{}/{}{}-XXXXXX", base, kRunPrefix, ::getpid());
  if (::mkdtemp(path.data()) == nullptr)
    return tl::unexpected(cli::system_error(base, errno, kBaseHint));
  RunDirectory made(std::move(path));
  made.lock_ = open_lock_file(made.path_, O_CREAT | O_EXCL);
  if (!made.lock_ || !lock(made.lock_, LOCK_EX) ||
      ::write(made.lock_.get(), pipeline.data(), pipeline.size()) < 0)
    return tl::unexpected(cli::system_error(made.path_ + "/" + kRunFile, errno));
  return made;
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

RunDirectory::~RunDirectory() {
  if (!path_.empty()) remove_run_directory(path_);
}

void remove_run_directory(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void sweep_run_directories(const std::string& base, const cli::Interrupt& interrupt) {
  const Result<Descriptor> base_lock = lock_base(base, interrupt, kSweepTime);
  if (!base_lock) return;
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    if (entry->path().filename().string().starts_with(kRunPrefix) && is_own_directory(path) &&
        is_dead(path))
      remove_run_directory(path);
  }
}

}  // namespace gantry::run
