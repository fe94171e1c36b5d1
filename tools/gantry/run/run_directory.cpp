#include "run_directory.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <gantry/channel.hpp>

#include "errors.hpp"

namespace gantry::run {
namespace {

namespace fs = std::filesystem;

void remove_tree(const std::string& path) {
  std::error_code ignored;  // what cannot go now, the next run's sweep removes
  fs::remove_all(path, ignored);
}

Descriptor open_directory(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool lock(const Descriptor& directory, int operation) {
  int result = 0;
  do {
    result = ::flock(directory.get(), operation);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

/// Whether `path` still leads to the directory that is open as `directory`.
bool is_same(const std::string& path, const Descriptor& directory) {
  struct stat named{};
  struct stat opened{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(directory.get(), &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

bool is_mine(const Descriptor& directory) {
  struct stat facts{};
  return ::fstat(directory.get(), &facts) == 0 && facts.st_uid == ::geteuid();
}

}  // namespace

Result<RunDirectory> RunDirectory::create(const std::string& base) {
  while (true) {
    std::string path = fmt::format("{}/{}{}-XXXXXX", base, kRunPrefix, ::getpid());
    if (::mkdtemp(path.data()) == nullptr)
      return tl::unexpected(
          cli::system_error(base, errno, "set GANTRY_DIR to a directory you can write to"));
    Descriptor directory = open_directory(path);
    // Until the lock is held another run may take the new folder for a dead run's and remove it.
    if (directory && lock(directory, LOCK_EX) && is_same(path, directory))
      return RunDirectory(std::move(path), std::move(directory));
    if (directory || errno == ENOENT) continue;
    return tl::unexpected(cli::system_error(path, errno));
  }
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

RunDirectory::~RunDirectory() {
  if (!path_.empty()) remove_tree(path_);
}

void sweep_run_directories(const std::string& base) {
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(kRunPrefix)) continue;
    const Descriptor directory = open_directory(entry->path().string());
    if (directory && is_mine(directory) && lock(directory, LOCK_EX | LOCK_NB))
      remove_tree(entry->path().string());
  }
}

}  // namespace gantry::run
