#include "image/new_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <cstdio>
#include <filesystem>

#include "core/base/os/file_size.hpp"

namespace gantry::image {
namespace {

namespace fs = std::filesystem;
constexpr const char* kMakeRoom = "make room, or name a file on another disk";
constexpr const char* kMakeFolder = "make its folder first";
constexpr std::string_view kPartial = ".partial-";
constexpr unsigned kMostBeside = 100;
// Behind kPartial: a process and a number.
constexpr std::size_t kLongestName = NAME_MAX - kPartial.size() - 16;

// The kernel would end a process that writes beyond its limit (SIGXFSZ).
bool is_allowed(Bytes end) noexcept {
  rlimit most{};
  return ::getrlimit(RLIMIT_FSIZE, &most) != 0 || end <= most.rlim_cur;
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Of what is behind kPartial: the process; 0: it is something else.
pid_t maker_of(std::string_view ending) noexcept {
  const char* const end = ending.data() + ending.size();
  pid_t pid = 0;
  const auto read = std::from_chars(ending.data(), end, pid);
  unsigned number = 0;
  const bool is_whole = read.ptr == end ||
                        (*read.ptr == '-' && std::from_chars(read.ptr + 1, end, number).ptr == end);
  return read.ec == std::errc() && is_whole && pid > 0 ? pid : 0;
}

// Nobody is at it: its maker is gone, which a process in another container cannot tell, and it is
// not locked, which a maker does at once.
void remove_if_left(const std::string& path, pid_t maker) noexcept {
  const bool is_another = maker != ::getpid();
  if (is_another && (::kill(maker, 0) == 0 || errno != ESRCH)) return;
  const Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts{};
  if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
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

std::string NewFile::partial_path(const std::string& path, unsigned number) {
  const std::size_t slash = path.rfind('/') + 1;  // 0: there is none
  const std::string_view name = std::string_view(path).substr(slash, kLongestName);
  auto made = fmt::format("{}{}{}{}", path.substr(0, slash), name, kPartial, ::getpid());
  if (number != 0) made += fmt::format("-{}", number);
  return made;
}

void NewFile::remove_left() const {
  const std::string made = fs::path(partial_path(path_)).filename().string();
  const std::string_view begin =
      std::string_view(made).substr(0, made.rfind(kPartial) + kPartial.size());
  std::error_code unknown;  // of a folder that cannot be read
  fs::directory_iterator entries(folder_, unknown);
  for (; !unknown && entries != fs::directory_iterator(); entries.increment(unknown)) {
    const std::string name = entries->path().filename().string();
    if (!name.starts_with(begin)) continue;
    const pid_t maker = maker_of(std::string_view(name).substr(begin.size()));
    if (maker != 0) remove_if_left(entries->path().string(), maker);
  }
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
  made.folder_ = folder_of(made.path_);
  made.remove_left();
  GANTRY_TRY(made.open());
  if (exists)  // who may read it stays as it was
    static_cast<void>(::fchmod(made.file_.get(), facts.st_mode & 0777));
  return made;
}

Result<void> NewFile::open() {
  file_.reset(::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  const bool has_such_files = errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL;
  if (!file_ && has_such_files) return fail_errno(path_, errno, errno == ENOENT ? kMakeFolder : "");
  for (unsigned i = 0; !file_ && i < kMostBeside; ++i) {
    partial_ = partial_path(path_, i);
    file_.reset(::open(partial_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file_ && errno != EEXIST) break;
  }
  if (!file_) {
    partial_.clear();
    return fail_errno(path_);
  }
  ::flock(file_.get(), LOCK_EX | LOCK_NB);  // for remove_left(), until it is closed
  return {};
}

Result<void> NewFile::write(ConstByteSpan bytes, Bytes offset) {
  const auto place = [&] { return fmt::format("{}: byte {}", path_, offset); };
  if (!is_allowed(offset + bytes.size()))
    return fail_errno(place(), EFBIG, "raise the limit of files' sizes (ulimit -f)");
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return fail_errno(place(), done < 0 ? errno : ENOSPC, kMakeRoom);
    offset += static_cast<Bytes>(done);
    bytes = bytes.subspan(static_cast<Bytes>(done));
  }
  return {};
}

Result<void> NewFile::set_size(Bytes bytes) {
  return set_file_size(file_.get(), bytes, path_);
}

Result<void> NewFile::keep() {
  if (::fsync(file_.get()) != 0) return fail_errno(path_, errno, kMakeRoom);
  GANTRY_TRY(give_name());
  return sync_folder();
}

Result<void> NewFile::give_name() {
  if (!partial_.empty()) return rename_partial();
  if (link(path_)) return {};
  if (errno != EEXIST) return fail_errno(path_);
  // A file without a name cannot replace another: it gets one beside it first.
  for (unsigned i = 0; i < kMostBeside; ++i) {
    const std::string beside = partial_path(path_, i);
    if (link(beside)) {
      partial_ = beside;
      return rename_partial();
    }
    if (errno != EEXIST) break;
  }
  return fail_errno(path_);
}

bool NewFile::link(const std::string& name) const noexcept {
  std::array<char, 32> self{};
  *fmt::format_to_n(self.data(), self.size() - 1, "/proc/self/fd/{}", file_.get()).out = 0;
  return ::linkat(AT_FDCWD, self.data(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

Result<void> NewFile::rename_partial() {
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
