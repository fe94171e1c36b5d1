#include "core/base/os/socket_file.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdio>
#include <cstring>

namespace gantry {
namespace {

constexpr const char* kInside = "socket";
constexpr int kQueue = 64;

std::string hidden_name(const std::string& file) {
  return "." + file + ".new";
}

Fd open_folder(int directory, const std::string& path) noexcept {
  return Fd(::openat(directory, path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_private(int folder) noexcept {
  struct stat facts{};
  return ::fstat(folder, &facts) == 0 && facts.st_uid == ::geteuid() &&
         (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

// I2. Earlier versions left a file of that name.
void remove_hidden(int directory, const std::string& hidden) noexcept {
  const Fd folder = open_folder(directory, hidden);
  if (folder && is_private(folder.get())) ::unlinkat(folder.get(), kInside, 0);
  if (::unlinkat(directory, hidden.c_str(), AT_REMOVEDIR) != 0 && errno == ENOTDIR)
    ::unlinkat(directory, hidden.c_str(), 0);
}

// bind(2) accepts no directory descriptor; /proc has a path for one.
int bind_in(int socket, int folder, const std::string& plain) {
  const auto bind_at = [socket](const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return errno = ENAMETOOLONG, -1;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  };
  const int bound = bind_at(fmt::format("/proc/self/fd/{}/{}", folder, kInside));
  return bound != 0 && errno == ENOENT ? bind_at(plain + "/" + kInside) : bound;  // no /proc
}

}  // namespace

Result<SocketFile> SocketFile::make(const std::string& directory, const std::string& file,
                                    const FileAccess& access) {
  SocketFile made;
  made.path_ = directory + "/" + file;
  made.file_ = file;
  made.directory_.reset(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!made.directory_) return fail_errno(directory);
  made.hidden_ = hidden_name(file);
  remove_hidden(made.directory_.get(), made.hidden_);
  GANTRY_TRY(made.open_private());
  GANTRY_TRY(made.listen(access));
  return made;
}

// I1
Result<void> SocketFile::open_private() {
  const std::string path = path_.substr(0, path_.size() - file_.size()) + hidden_;
  if (::mkdirat(directory_.get(), hidden_.c_str(), S_IRWXU) != 0) return fail_errno(path);
  private_ = open_folder(directory_.get(), hidden_);
  if (!private_) return fail_errno(path);
  if (!is_private(private_.get()))
    return fail(Code::permission_denied,
                path_ + ": another user swapped the folder in which its socket was to be made",
                "use a directory that belongs to you (GANTRY_DIR)");
  return {};
}

Result<void> SocketFile::listen(const FileAccess& access) {
  listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_) return fail_errno("socket");
  accept_rights(listener_.get(), false);  // what it accepts inherits that
  const std::string plain = path_.substr(0, path_.size() - file_.size()) + hidden_;
  if (bind_in(listener_.get(), private_.get(), plain) != 0) return fail_errno(path_);
  constexpr auto kSameUser = static_cast<uid_t>(-1);
  if (access.group && ::fchownat(private_.get(), kInside, kSameUser, *access.group, 0) != 0)
    return fail_errno(
        fmt::format("{}: group {}", path_, *access.group), errno,
        errno == EPERM ? "only a member of that group, or root, can give it the socket" : "");
  if (::fchmodat(private_.get(), kInside, access.mode, 0) != 0) return fail_errno(path_);
  if (::listen(listener_.get(), kQueue) != 0) return fail_errno(path_);
  return {};
}

Result<struct stat> SocketFile::publish() {
  struct stat facts{};
  if (::fstatat(private_.get(), kInside, &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::renameat(private_.get(), kInside, directory_.get(), file_.c_str()) != 0)
    return fail_errno(path_);
  clear();
  return facts;
}

void SocketFile::clear() noexcept {
  if (!directory_ || hidden_.empty()) return;
  if (private_) ::unlinkat(private_.get(), kInside, 0);
  ::unlinkat(directory_.get(), hidden_.c_str(), AT_REMOVEDIR);
  private_.reset();
  directory_.reset();
}

void SocketFile::sweep(const std::string& directory, const std::string& file) {
  const Fd folder(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder) remove_hidden(folder.get(), hidden_name(file));
}

}  // namespace gantry
