#include "remote/link_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <gantry/channel.hpp>

namespace gantry {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = "/.owner";  // no channel's name begins with a dot

Fd lock_of(const std::string& path, int flags) {
  Fd file(::open((path + kLockFile).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600));
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) file.reset();
  return file;
}

// A folder gets its name once its lock is held, so none with such a name is on its way.
void sweep(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    struct stat facts{};
    if (!entry->path().filename().string().starts_with(kLinkPrefix) ||
        ::lstat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) ||
        facts.st_uid != ::geteuid())
      continue;
    const Fd lock = lock_of(path, 0);
    std::error_code ignored;
    if (lock) fs::remove_all(path, ignored);
  }
}

}  // namespace

Result<LinkDirectory> LinkDirectory::make(const std::string& parent) {
  sweep(parent);
  std::string hidden = fmt::format("{}/.{}{}-XXXXXX", parent, kLinkPrefix, ::getpid());
  if (::mkdtemp(hidden.data()) == nullptr) return fail_errno(parent);
  Fd lock = lock_of(hidden, O_CREAT | O_EXCL);
  std::string path = hidden;
  path.erase(parent.size() + 1, 1);  // the dot
  if (!lock || ::rename(hidden.c_str(), path.c_str()) != 0) {
    auto failed = fail_errno(hidden);
    std::error_code ignored;
    fs::remove_all(hidden, ignored);
    return failed;
  }
  return LinkDirectory(std::move(path), std::move(lock));
}

LinkDirectory::~LinkDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace gantry
