#include "core/calibration/calibration_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "core/base/result.hpp"
#include "core/calibration/calibration_text.hpp"

namespace gantry {
namespace {

constexpr const char* kAnew = "`gantry calibrate` measures anew";
constexpr const char* kHint = "set XDG_CACHE_HOME to a folder of yours";

std::string variable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr || *value != '/' ? std::string() : std::string(value);
}

std::string cache_folder() {
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/gantry";
  const std::string home = variable("HOME");
  return home.empty() ? home : home + "/.cache/gantry";
}

// FNV-1a: a name for the file. The line itself is in the file and is compared.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

Result<struct stat> facts_of(int descriptor, const std::string& path) {
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) return fail_errno(path);
  return facts;
}

Result<void> check_ours(const struct stat& facts, const std::string& path) {
  if (facts.st_uid != ::geteuid())
    return fail(Code::permission_denied, fmt::format("{}: it belongs to somebody else", path),
                kHint);
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fail(Code::permission_denied, fmt::format("{}: others may write it", path),
                fmt::format("chmod go-w {}", path));
  return {};
}

Result<Fd> open_file(int folder, const std::string& name, const std::string& path) {
  Fd file(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ELOOP)
    return fail(Code::permission_denied, fmt::format("{}: it is a symbolic link", path));
  if (!file) return fail_errno(path);
  GANTRY_ASSIGN(const struct stat facts, facts_of(file.get(), path));
  GANTRY_TRY(check_ours(facts, path));
  if (!S_ISREG(facts.st_mode))
    return fail(Code::invalid_argument, fmt::format("{}: it is no file", path));
  if (facts.st_size > static_cast<off_t>(kMaxCalibrationText))
    return fail(Code::too_large, fmt::format("{}: {} bytes are too many", path, facts.st_size));
  return file;
}

Result<std::string> read_all(int file, const std::string& path) {
  std::string text;
  std::array<char, 4096> piece{};
  while (text.size() <= kMaxCalibrationText) {
    const ssize_t count = ::read(file, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(path);
    if (count == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  return text;
}

Result<void> write_all(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(path);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return fail_errno(fmt::format("making {}", path), errno, kHint);
}

}  // namespace

CalibrationStore::CalibrationStore(std::string machine)
    : machine_(std::move(machine)),
      folder_(cache_folder()),
      name_(fmt::format("calibration-{:016x}", hash(machine_))),
      path_(folder_.empty() ? folder_ : folder_ + "/" + name_) {}

Result<Fd> CalibrationStore::open_folder(bool make) const {
  if (folder_.empty())
    return fail(Code::not_found,
                "calibrations are kept nowhere: neither HOME nor XDG_CACHE_HOME "
                "is an absolute path",
                kHint);
  if (make) {
    static_cast<void>(make_folder(folder_.substr(0, folder_.rfind('/'))));  // the next says why
    GANTRY_TRY(make_folder(folder_));
  }
  Fd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder) return fail_errno(folder_, errno, errno == ENOENT ? "" : kHint);
  GANTRY_ASSIGN(const struct stat facts, facts_of(folder.get(), folder_));
  GANTRY_TRY(check_ours(facts, folder_));
  return folder;
}

CalibrationStore::Found CalibrationStore::load() const {
  const auto found = [&]() -> Result<Calibration> {
    GANTRY_ASSIGN(const Fd folder, open_folder(false));
    GANTRY_ASSIGN(const Fd file, open_file(folder.get(), name_, path_));
    GANTRY_ASSIGN(const std::string text, read_all(file.get(), path_));
    auto read = read_calibration(text);
    if (!read)
      return fail(Code::invalid_argument, fmt::format("{}: {}", path_, read.error().message),
                  kAnew);
    if (read->machine != machine_)
      return fail(Code::invalid_argument, fmt::format("{}: it is of another machine", path_),
                  kAnew);
    return read;
  }();
  if (found) return {*found, {}};
  // A missing file is no problem, unless there can never be one.
  if (found.error().code == Code::not_found && !folder_.empty()) return {};
  return {std::nullopt, to_string(found.error())};
}

// All writers use one name for the half-written file: only the holder of the lock writes.
Result<void> CalibrationStore::save(const Calibration& calibration) const {
  GANTRY_ASSIGN(const Fd folder, open_folder(true));
  const std::string half = name_ + ".new";
  ::unlinkat(folder.get(), half.c_str(), 0);  // of a process that was killed
  const Fd file(::openat(folder.get(), half.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return fail_errno(path_, errno, kHint);
  auto written = write_all(file.get(), write_calibration(calibration), path_);
  if (written && ::renameat(folder.get(), half.c_str(), folder.get(), name_.c_str()) != 0)
    written = fail_errno(path_);
  if (!written) ::unlinkat(folder.get(), half.c_str(), 0);
  return written;
}

Result<Fd> CalibrationStore::lock() const {
  GANTRY_ASSIGN(const Fd folder, open_folder(true));
  const std::string name = name_ + ".lock";
  Fd file(::openat(folder.get(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return fail_errno(folder_ + "/" + name, errno, kHint);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) return fail_errno(folder_ + "/" + name);
  return fail(Code::busy, "calibrating: another process is at it", "try again when it is done");
}

}  // namespace gantry
