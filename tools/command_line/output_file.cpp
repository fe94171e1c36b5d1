#include "output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tools/command_line/limits.hpp"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMostBeside = 100;
constexpr std::string_view kPartial = ".partial-";
// Behind kPartial: a process and a number.
constexpr std::size_t kLongestName = NAME_MAX - kPartial.size() - 16;

std::string_view mend_of(int why) {
  if (why == ENOSPC || why == EDQUOT) return "make room, or name a file on another disk";
  const std::string_view mend = mend_of_limit(why);
  return mend.empty() ? "name a file that can be written" : mend;
}

tl::unexpected<Error> cannot(const std::string& path, int why) {
  return tl::unexpected(Error{Code::system,
                              fmt::format("{}: {}", path, std::generic_category().message(why)),
                              std::string(mend_of(why))});
}

/// What is open already: whoever opens it waits for nobody.
bool is_own_stream(std::string_view path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/self/fd/");
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// A file without a name in that folder; -1 and errno: why not.
int open_unnamed(const std::string& folder) {
  return ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

bool has_unnamed(int why) {
  return why != EOPNOTSUPP && why != EISDIR && why != EINVAL;
}

int open_named(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

/// 0, or why none can be made.
int try_to_make(const std::string& target) {
  int made = open_unnamed(folder_of(target));
  const bool is_named = made < 0 && !has_unnamed(errno);
  const std::string path = partial_path(target, 0);
  if (is_named) {
    ::unlink(path.c_str());
    made = open_named(path);
  }
  if (made < 0) return errno;
  ::close(made);
  if (is_named) ::unlink(path.c_str());  // whoever is killed before it is written leaves nothing
  return 0;
}

/// The kernel would end a process that writes beyond its limit.
bool is_allowed(Bytes end) {
  rlimit most{};
  return ::getrlimit(RLIMIT_FSIZE, &most) != 0 || end <= most.rlim_cur;
}

bool is_same(const std::string& one, const std::string& other) {
  struct stat facts{}, others{};
  if (::stat(one.c_str(), &facts) == 0 && ::stat(other.c_str(), &others) == 0)
    return facts.st_dev == others.st_dev && facts.st_ino == others.st_ino && S_ISREG(facts.st_mode);
  std::error_code unknown;
  const auto place = fs::weakly_canonical(fs::absolute(one, unknown), unknown);
  const auto others_place = fs::weakly_canonical(fs::absolute(other, unknown), unknown);
  return !unknown && place == others_place;
}

}  // namespace

std::string partial_path(const std::string& path, unsigned number) {
  const std::size_t slash = path.rfind('/') + 1;  // 0: there is none
  const std::string_view name = std::string_view(path).substr(slash, kLongestName);
  auto made = fmt::format("{}{}{}{}", path.substr(0, slash), name, kPartial, ::getpid());
  if (number != 0) made += fmt::format("-{}", number);
  return made;
}

bool is_partial(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t at = name.rfind(kPartial);
  if (at == name.npos) return false;
  std::string_view rest = name.substr(at + kPartial.size());
  const std::size_t digits = std::min(rest.find_first_not_of(kDigits), rest.size());
  rest.remove_prefix(digits);
  if (digits == 0 || rest.empty()) return digits != 0;
  return rest.size() > 1 && rest[0] == '-' && rest.find_first_not_of(kDigits, 1) == rest.npos;
}

Result<OutputFile> OutputFile::at(const std::string& path) {
  if (path == "-")
    return tl::unexpected(Error{Code::invalid_argument, "'-': it names no file here",
                                "say /dev/stdout, or ./- for a file of that name"});
  OutputFile file;
  file.target_ = path;
  struct stat facts{};
  const bool exists = ::stat(path.c_str(), &facts) == 0;
  file.is_direct_ = exists && (is_own_stream(path) || S_ISCHR(facts.st_mode));
  if (exists && is_own_stream(path)) return file;
  if (exists && S_ISDIR(facts.st_mode)) return cannot(path, EISDIR);
  if (exists && !S_ISREG(facts.st_mode) && !S_ISCHR(facts.st_mode))
    return tl::unexpected(Error{Code::unsupported, path + ": it is no regular file",
                                "name a file, or /dev/stdout, which may be a pipe"});
  if (exists && ::access(path.c_str(), W_OK) != 0) return cannot(path, errno);
  if (file.is_direct_) return file;
  std::error_code unknown;
  const auto target = fs::canonical(path, unknown);  // a link stays one
  if (!unknown) file.target_ = target.string();
  const int why = try_to_make(file.target_);
  file.is_direct_ = exists && (why == EACCES || why == EPERM || why == EROFS);  // of its folder
  if (why != 0 && !file.is_direct_) return cannot(path, why);
  return file;
}

Result<void> OutputFile::write(std::string_view text) const {
  auto writer = OutputWriter::open(*this);
  if (!writer) return tl::unexpected(writer.error());
  if (auto written = writer->write(text); !written) return written;
  return writer->keep();
}

// ---- written -----------------------------------------------------------------------------------

Result<OutputWriter> OutputWriter::open(const OutputFile& file) {
  OutputWriter made(file);
  const std::string& target = made.file_.target();
  made.descriptor_ = file.is_direct()
                         ? ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
                         : made.open_partial();
  if (made.descriptor_ < 0) return cannot(target, errno);
  struct stat facts{}, earlier{};
  made.is_limited_ = ::fstat(made.descriptor_, &facts) == 0 && S_ISREG(facts.st_mode);
  if (!file.is_direct() &&
      ::stat(target.c_str(), &earlier) == 0)  // who may read it stays as it was
    static_cast<void>(::fchmod(made.descriptor_, earlier.st_mode & 0777));
  return made;
}

OutputWriter::OutputWriter(OutputWriter&& other) noexcept
    : file_(std::move(other.file_)),
      partial_(std::exchange(other.partial_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      written_(other.written_),
      is_limited_(other.is_limited_) {}

OutputWriter::~OutputWriter() {
  static_cast<void>(close());
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

int OutputWriter::open_partial() {
  int file = open_unnamed(folder_of(file_.target()));
  if (file >= 0 || has_unnamed(errno)) return file;
  for (unsigned i = 0; i < kMostBeside; ++i) {
    std::string beside = partial_path(file_.target(), i);
    file = open_named(beside);
    if (file >= 0) partial_ = std::move(beside);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return file;
}

Result<void> OutputWriter::write(ConstByteSpan bytes) {
  if (is_limited_ && !is_allowed(written_ + bytes.size())) return cannot(file_.target(), EFBIG);
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return cannot(file_.target(), errno);
    written_ += static_cast<Bytes>(done);
    bytes = bytes.subspan(static_cast<Bytes>(done));
  }
  return {};
}

bool OutputWriter::close() noexcept {
  return descriptor_ < 0 || ::close(std::exchange(descriptor_, -1)) == 0;
}

Result<void> OutputWriter::keep() {
  if (!give_name() || !close()) return cannot(file_.target(), errno);
  if (partial_.empty()) return {};
  if (::rename(partial_.c_str(), file_.target().c_str()) != 0) return cannot(file_.target(), errno);
  partial_.clear();
  return {};
}

// A file without a name cannot replace another: it gets one beside it first.
bool OutputWriter::give_name() {
  if (file_.is_direct() || !partial_.empty() || link(file_.target())) return true;
  for (unsigned i = 0; errno == EEXIST && i < kMostBeside; ++i) {
    std::string beside = partial_path(file_.target(), i);
    if (!link(beside)) continue;
    partial_ = std::move(beside);
    return true;
  }
  return false;
}

bool OutputWriter::link(const std::string& name) const {
  const std::string self = fmt::format("/proc/self/fd/{}", descriptor_);
  return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

Result<void> check_different(const NamedFile& input, const std::vector<NamedFile>& outputs) {
  std::vector<NamedFile> before{input};
  for (const NamedFile& output : outputs) {
    if (output.path.empty()) continue;
    for (const NamedFile& one : before)
      if (!one.path.empty() && is_same(one.path, output.path))
        return tl::unexpected(
            Error{Code::invalid_argument,
                  fmt::format("{} {}: it is the same file as {}", output.what, output.path,
                              one.what == input.what ? "the " + one.what : "that of " + one.what),
                  "name another, so that nothing is overwritten"});
    before.push_back(output);
  }
  return {};
}

}  // namespace gantry::cli
