#include "output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> cannot(const std::string& path, int why,
                             const char* hint = "name a file that can be written") {
  return tl::unexpected(
      Error{Code::system, fmt::format("{}: {}", path, std::generic_category().message(why)), hint});
}

/// What is open already: whoever opens it waits for nobody.
bool is_own_stream(std::string_view path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/self/fd/");
}

bool can_make(const std::string& path) {
  ::unlink(path.c_str());
  const int made = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (made < 0) return false;
  ::close(made);
  ::unlink(path.c_str());  // whoever is killed before it is written leaves nothing
  return true;
}

int write_to(int file, std::string_view text) {
  if (file < 0) return errno;
  int why = 0;
  while (!text.empty() && why == 0) {
    const ssize_t done = ::write(file, text.data(), text.size());
    if (done < 0 && errno != EINTR) why = errno;
    if (done > 0) text.remove_prefix(static_cast<std::size_t>(done));
  }
  if (::close(file) != 0 && why == 0) why = errno;
  return why;
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

Result<OutputFile> OutputFile::at(const std::string& path) {
  if (path == "-")
    return tl::unexpected(Error{Code::invalid_argument, "'-': it names no file here",
                                "say /dev/stdout, or ./- for a file of that name"});
  OutputFile file;
  file.target_ = file.written_ = path;
  struct stat facts{};
  const bool exists = ::stat(path.c_str(), &facts) == 0;
  if (exists && is_own_stream(path)) return file;
  if (exists && S_ISDIR(facts.st_mode)) return cannot(path, EISDIR);
  if (exists && !S_ISREG(facts.st_mode) && !S_ISCHR(facts.st_mode))
    return tl::unexpected(Error{Code::unsupported, path + ": it is no regular file",
                                "name a file, or /dev/stdout, which may be a pipe"});
  if (exists && ::access(path.c_str(), W_OK) != 0) return cannot(path, errno);
  if (exists && S_ISCHR(facts.st_mode)) return file;
  std::error_code unknown;
  const auto target = fs::canonical(path, unknown);  // a link stays one
  if (!unknown) file.target_ = target.string();
  file.written_ = fmt::format("{}.partial-{}", file.target_, ::getpid());
  if (can_make(file.written_)) return file;
  if (!exists) return cannot(path, errno);
  file.written_ = file.target_;  // of a folder that takes no new one
  return file;
}

int OutputFile::open() const noexcept {
  const bool is_direct = written_ == target_;
  const int file =
      ::open(written_.c_str(),
             O_WRONLY | O_CREAT | O_CLOEXEC | (is_direct ? O_TRUNC : O_EXCL | O_NOFOLLOW), 0666);
  struct stat earlier{};
  if (file >= 0 && !is_direct && ::stat(target_.c_str(), &earlier) == 0)
    static_cast<void>(::fchmod(file, earlier.st_mode & 0777));  // who may read it stays as it was
  return file;
}

Result<void> OutputFile::write(std::string_view text) const {
  if (const int why = write_to(open(), text); why != 0) {
    drop();
    return cannot(target_, why, "make room, or name a file on another disk");
  }
  return keep();
}

Result<void> OutputFile::keep() const {
  if (written_ == target_ || ::rename(written_.c_str(), target_.c_str()) == 0) return {};
  const int why = errno;
  drop();
  return cannot(target_, why);
}

void OutputFile::drop() const noexcept {
  if (written_ != target_) ::unlink(written_.c_str());
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
