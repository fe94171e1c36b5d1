#include "image/new_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file_size.hpp"

namespace gantry::image {
namespace {

namespace fs = std::filesystem;
constexpr const char* kRoom = "make room, or name a file on another disk";

// The kernel would end a process that writes beyond its limit (SIGXFSZ).
bool is_allowed(Bytes end) noexcept {
  rlimit most{};
  return ::getrlimit(RLIMIT_FSIZE, &most) != 0 || end <= most.rlim_cur;
}

}  // namespace

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      folder_(std::move(other.folder_)),
      partial_(std::exchange(other.partial_, {})),
      file_(std::move(other.file_)) {}

NewFile::~NewFile() {
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

Result<NewFile> NewFile::create(const std::string& path) {
  struct stat facts{};
  const bool exists = ::stat(path.c_str(), &facts) == 0;
  if (exists && !S_ISREG(facts.st_mode))
    return fail(Code::invalid_argument, path + ": something else than a file has that name",
                "name another");
  NewFile made;
  std::error_code unknown;
  const auto target = fs::canonical(path, unknown);  // a link stays one
  made.path_ = exists && !unknown ? target.string() : path;
  const std::string folder = fs::path(made.path_).parent_path().string();
  made.folder_ = folder.empty() ? "." : folder;
  GANTRY_TRY(made.open(made.folder_));
  if (exists)  // who may read it stays as it was
    static_cast<void>(::fchmod(made.file_.get(), facts.st_mode & 0777));
  return made;
}

Result<void> NewFile::open(const std::string& folder) {
  file_.reset(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  if (file_) return {};
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return fail_errno(path_);
  partial_ = fmt::format("{}.partial-{}", path_, ::getpid());
  ::unlink(partial_.c_str());
  file_.reset(::open(partial_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file_) return {};
  partial_.clear();
  return fail_errno(path_);
}

Result<void> NewFile::write(ConstByteSpan bytes, Bytes offset) {
  const auto place = [&] { return fmt::format("{}: byte {}", path_, offset); };
  if (!is_allowed(offset + bytes.size()))
    return fail_errno(place(), EFBIG, "raise the limit of files' sizes (ulimit -f)");
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return fail_errno(place(), done < 0 ? errno : ENOSPC, kRoom);
    offset += static_cast<Bytes>(done);
    bytes = bytes.subspan(static_cast<Bytes>(done));
  }
  return {};
}

Result<void> NewFile::set_size(Bytes bytes) {
  return set_file_size(file_.get(), bytes, path_);
}

Result<void> NewFile::keep() {
  if (::fsync(file_.get()) != 0) return fail_errno(path_, errno, kRoom);
  GANTRY_TRY(give_name());
  return sync_folder();
}

// A file without a name cannot replace another: it gets one beside it first.
Result<void> NewFile::give_name() {
  if (partial_.empty()) {
    const std::string self = fmt::format("/proc/self/fd/{}", file_.get());
    const auto link = [&](const std::string& name) {
      return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    };
    if (link(path_)) return {};
    if (errno != EEXIST) return fail_errno(path_);
    const std::string beside = fmt::format("{}.partial-{}", path_, ::getpid());
    ::unlink(beside.c_str());
    if (!link(beside)) return fail_errno(path_);
    partial_ = beside;
  }
  if (::rename(partial_.c_str(), path_.c_str()) != 0) return fail_errno(path_);
  partial_.clear();
  return {};
}

Result<void> NewFile::sync_folder() const {
  const Fd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) == 0 || errno == EINVAL) return {};
  return fail_errno(folder_);
}

}  // namespace gantry::image
