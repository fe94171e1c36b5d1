#include "core/channel/naming/rendezvous.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <gantry/runtime.hpp>
#include <optional>
#include <set>

#include "core/base/os/close_elsewhere.hpp"
#include "core/base/os/fd.hpp"
#include "core/base/os/runtime_directory.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/os/socket_file.hpp"
#include "core/base/result.hpp"
#include "core/base/wait.hpp"
#include "core/channel/wire/notice.hpp"
#include "core/channel/wire/protocol.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {
namespace {

bool is_absolute(const std::string& path) {
  return path.starts_with('/');
}

// Whoever can write here could put a socket of his own in a channel's place, and whoever can open
// it could keep its lock. For a look it does not matter who may pass through (--x).
Result<void> check_owner_and_mode(const std::string& directory, bool is_look) {
  struct stat facts{};
  if (::lstat(directory.c_str(), &facts) != 0) return fail_errno(directory);
  GANTRY_TRY(check_is_directory(directory, facts));
  if (facts.st_uid != ::geteuid() && !(is_look && ::geteuid() == 0))
    return fail(Code::permission_denied,
                fmt::format("{}: belongs to user {}, not to you", directory, facts.st_uid),
                "set GANTRY_DIR to a directory of your own; to join that user's channels list the "
                "user in EndOptions::access");
  const mode_t passing = is_look ? S_IXGRP | S_IXOTH : 0;
  if ((facts.st_mode & (S_IRWXG | S_IRWXO) & ~passing) != 0)
    return fail(
        Code::permission_denied,
        fmt::format("{}: others can use it (mode {:03o})", directory, facts.st_mode & 0777),
        "chmod 700 it if it is for channels alone, else set GANTRY_DIR to another directory");
  return {};
}

/// A locked folder. Unlocked by word: a child that was forked meanwhile has the descriptor, too,
/// and would keep the lock, also from itself.
class FolderLock {
 public:
  explicit FolderLock(Fd folder) noexcept : folder_(std::move(folder)) {}
  FolderLock(FolderLock&&) noexcept = default;
  FolderLock& operator=(FolderLock&&) = delete;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (folder_) ::flock(folder_.get(), LOCK_UN);
  }
  [[nodiscard]] int get() const noexcept { return folder_.get(); }

 private:
  Fd folder_;
};

// Others hold the lock for microseconds, unless one is stopped inside; nobody waits for that for
// ever. flock() has no time limit, so a taken lock is tried again every millisecond.
Result<FolderLock> lock_directory(const std::string& directory, int interrupt, Deadline deadline) {
  Fd folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail_errno(directory);
  while (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return fail_errno("locking " + directory);
    if (deadline.passed())
      return fail(Code::timed_out, directory + ": another process keeps it locked",
                  "end the process that holds it (fuser -v " + directory + ")");
    if (sleep_on({interrupt}, std::chrono::milliseconds(1)) != 0)
      return fail(Code::interrupted, directory + ": interrupted while waiting for its lock");
  }
  return FolderLock(std::move(folder));
}

// Removes what a process left that died while it had the name, or was to get it.
void remove_if_stale(const FolderLock& lock, const std::string& directory,
                     const std::string& file) {
  SocketFile::sweep(directory, file);
  struct stat facts{};  // somebody's plain file would refuse connections as well
  if (::fstatat(lock.get(), file.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISSOCK(facts.st_mode))
    return;
  bool stale = false;
  const auto socket = connect_to(directory, file, &stale);
  if (stale) ::unlinkat(lock.get(), file.c_str(), 0);
}

// The files of `directory` that are sockets by their name, or are to become some, that begin with
// `prefix`.
std::set<std::string> socket_files(const std::string& directory, std::string_view prefix) {
  constexpr std::string_view kUnfinished = ".new";  // of a SocketFile: ".NAME.sock.new"
  std::set<std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    std::string file = entry->path().filename();
    if (file.starts_with('.') && file.ends_with(kUnfinished))
      file = file.substr(1, file.size() - 1 - kUnfinished.size());
    if (file.starts_with(prefix) && file.ends_with(kSocketSuffix)) files.insert(std::move(file));
  }
  return files;
}

// A process of another namespace that seems to be dead is asked; a live one is left alone.
void sweep_dead_queues(const FolderLock& lock, const std::string& directory) {
  for (const std::string& file : socket_files(directory, kQueuePrefix)) {
    pid_t pid = 0;
    const char* const number = file.c_str() + kQueuePrefix.size();
    const auto parsed = std::from_chars(number, file.c_str() + file.size(), pid);
    if (parsed.ec == std::errc() && *parsed.ptr == '-' && pid > 0 && ::kill(pid, 0) != 0 &&
        errno == ESRCH)
      remove_if_stale(lock, directory, file);
  }
}

constexpr std::chrono::seconds kLockTime{5};

// What has an owner of that kind, in errors.
std::string label(std::string_view owner, std::string_view name) {
  return fmt::format("{} '{}'", owner == "queue" ? owner : "channel", name);
}

// Only "nobody listens" means dead: a listener whose queue is full, or that does not let us ask,
// lives. Errors: we have no descriptor to ask with, or no memory.
Result<void> check_free(const std::string& directory, const std::string& name,
                        std::string_view whose) {
  const auto socket = connect_to(directory, name + kSocketSuffix);
  const Code code = socket ? Code::already_exists : socket.error().code;
  if (code == Code::not_found) return {};
  if (is_own_trouble(code)) return tl::unexpected(socket.error());
  const auto owner = socket ? peer_of(socket->get()) : Result<PeerIdentity>(PeerIdentity{});
  const pid_t pid = owner ? owner->pid : 0;
  const std::string who = pid == ::getpid() ? "this process"
                          : pid > 0         ? fmt::format("process {}", pid)
                                            : "another process";
  return fail(Code::already_exists,
              fmt::format("{}: {} has that name already", label(whose, name), who),
              "choose another name, or end what has it; an inbox, a server or a queue is opened "
              "once and then connected to (gantry ls shows what has the name)");
}

// The kernel's own words are kept for what nobody here can mend.
Error not_let_in(const std::string& directory, const std::string& name, Error error) {
  const std::string path = directory + "/" + name + kSocketSuffix;
  struct stat facts{};
  const bool is_seen = ::stat(path.c_str(), &facts) == 0;
  error.message = fmt::format(
      "channel '{}': {}: {}", name, path,
      is_seen ? fmt::format("user {} may not connect to it (it belongs to user {}, mode {:03o})",
                            ::geteuid(), facts.st_uid, facts.st_mode & 0777)
              : fmt::format("user {} may not pass through its folder", ::geteuid()));
  error.hint =
      "where it is opened: list this user in Access::users, set Access::socket_mode to 0666, and "
      "chmod 711 " +
      directory;
  return error;
}

// Wakes at every change of the folder. Where nothing reports changes (no inotify left for this
// user, or the producer is there but has no time for us) the waiter looks again every 10 ms. Ending
// a watch takes the kernel milliseconds, and seconds while others keep its locks busy: nobody with
// a deadline waits for that.
class FolderWatch {
 public:
  explicit FolderWatch(const std::string& directory)
      : watch_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    if (watch_ && ::inotify_add_watch(watch_.get(), directory.c_str(),
                                      IN_CREATE | IN_MOVED_TO | IN_DELETE) < 0)
      watch_.reset();
  }
  ~FolderWatch() { close_elsewhere({&watch_, 1}); }
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  /// False: `interrupt` became readable.
  [[nodiscard]] bool wait(int interrupt, Deadline deadline, bool look_again) {
    constexpr std::chrono::milliseconds kLookAgain{10};
    auto most = deadline.left();
    if (!watch_ || look_again) most = std::min<std::chrono::nanoseconds>(most, kLookAgain);
    const unsigned readable = sleep_on({watch_.get(), interrupt}, most);
    std::array<char, 4096> events;  // NOLINT: filled by read
    if (watch_)
      while (::read(watch_.get(), events.data(), events.size()) > 0) continue;
    return (readable & 2) == 0;
  }

 private:
  Fd watch_;
};

// Which names there are that a person chose.
std::string names_beside(const std::string& name, const std::string& directory) {
  constexpr std::size_t kMostNames = 8;
  std::vector<std::string> names;
  for (const std::string& file : socket_files(directory, {})) {
    std::string other = file.substr(0, file.size() - std::strlen(kSocketSuffix));
    if (check_channel_name(other) && !is_made_up_name(other) && other != name)
      names.push_back(std::move(other));
  }
  if (names.empty())
    return ::access(directory.c_str(), R_OK) == 0 ? "there is no other channel"
                                                  : "this user may not list names";
  const char* const verb = names.size() == 1 ? "is" : "are";
  const std::size_t more = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - more);
  return fmt::format("there {} {}{}", verb, fmt::join(names, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

Error owner_is_missing(const std::string& directory, const std::string& name, std::string_view whom,
                       bool overloaded) {
  if (overloaded)
    return {Code::timed_out,
            label(whom, name) + ": its owner lets nobody in, and too many are waiting",
            "it is stopped or has no time: let it go on (kill -CONT), or end it"};
  return {Code::timed_out, fmt::format("{}: no {} appeared in time", label(whom, name), whom),
          fmt::format("start the {}, or check the name and GANTRY_DIR: in {} {}", whom, directory,
                      names_beside(name, directory))};
}

}  // namespace

std::string awaited_text(const std::string& directory, const std::string& name,
                         std::string_view whom) {
  return fmt::format("{} in {}: waiting for its {}; {}", label(whom, name), directory,
                     whom == "queue" ? "owner" : whom, names_beside(name, directory));
}

Result<Claim> Claim::take(const std::string& directory, const std::string& name, int interrupt,
                          const FileAccess& access, std::string_view owner) {
  Claim claim;
  claim.directory_ = directory;
  claim.file_ = name + kSocketSuffix;
  GANTRY_ASSIGN(const FolderLock lock,
                lock_directory(directory, interrupt, Deadline::after(kLockTime)));
  GANTRY_STEP(claim_locked);
  GANTRY_TRY(check_free(directory, name, owner));
  if (name.starts_with(kQueuePrefix)) sweep_dead_queues(lock, directory);
  auto made = SocketFile::make(directory, claim.file_, access);
  if (!made && made.error().hint.empty())
    made.error().hint = "set GANTRY_DIR to a directory you can write to";
  GANTRY_ASSIGN(SocketFile socket, std::move(made));
  GANTRY_STEP(claim_listening);
  GANTRY_ASSIGN(const struct stat facts, socket.publish());
  claim.listener_ = socket.take_listener();
  GANTRY_STEP(claim_named);
  claim.device_ = facts.st_dev;
  claim.inode_ = facts.st_ino;
  return claim;
}

// While the listener is open nobody takes the file for stale, and no other file can have its
// inode's number: so the file is checked and removed before the listener is closed, and whoever
// drops an end waits for nobody inside the directory's lock.
void Claim::give_up() noexcept {
  const Fd listener = std::move(listener_);
  if (!listener || !fork_guard_.is_this()) return;
  GANTRY_STEP(claim_dropped);
  const Fd folder(::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat facts{};
  if (::fstatat(folder.get(), file_.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
      facts.st_dev == device_ && facts.st_ino == inode_)
    ::unlinkat(folder.get(), file_.c_str(), 0);
  GANTRY_STEP(claim_removed);
}

Result<Fd> find_producer(const std::string& directory, const std::string& name, int interrupt,
                         Deadline deadline, std::string_view whom, bool notices) {
  const std::string file = name + kSocketSuffix;
  const Deadline patience = Deadline::after(kNoticeAfter);
  std::optional<FolderWatch> watch;  // mostly the producer is there
  for (;;) {
    auto socket = connect_to(directory, file);
    if (socket) return socket;
    const bool overloaded = socket.error().code == Code::timed_out;
    if (socket.error().code == Code::permission_denied)
      return tl::unexpected(not_let_in(directory, name, std::move(socket).error()));
    if (socket.error().code != Code::not_found && !overloaded) return socket;
    if (deadline.passed())
      return tl::unexpected(owner_is_missing(directory, name, whom, overloaded));
    if (!watch) {  // before the next look, so that no change is missed
      watch.emplace(directory);
      continue;
    }
    if (notices && patience.passed()) {
      say_notice(awaited_text(directory, name, whom));
      notices = false;
    }
    const bool is_patient = notices && patience.left() < deadline.left();
    if (!watch->wait(interrupt, is_patient ? patience : deadline, overloaded))
      return fail(Code::interrupted, label(whom, name) + ": interrupted while waiting");
  }
}

// The next one sweeps what cannot be swept now.
void sweep_if_stale(const std::string& directory, const std::string& name,
                    Deadline deadline) noexcept {
  static_cast<void>(guarded([&]() -> Result<void> {
    GANTRY_ASSIGN(const FolderLock lock, lock_directory(directory, -1, deadline));
    remove_if_stale(lock, directory, name + kSocketSuffix);
    return {};
  }));
}

void sweep_all_stale(const std::string& directory, Deadline deadline) noexcept {
  static_cast<void>(guarded([&]() -> Result<void> {
    GANTRY_ASSIGN(const FolderLock lock, lock_directory(directory, -1, deadline));
    for (const std::string& file : socket_files(directory, {}))
      remove_if_stale(lock, directory, file);
    return {};
  }));
}

// ---- folders and names -----------------------------------------------------------------------

std::string channel_directory_path(std::string_view given) {
  return given.empty() ? runtime_directory_path() : std::string(given);
}

Result<std::string> chosen_channel_directory(std::string_view given) {
  std::string directory = channel_directory_path(given);
  if (is_absolute(directory)) return directory;
  if (!given.empty()) {  // an end may open others there later, behind a chdir(2)
    std::error_code error;
    const auto path = std::filesystem::absolute(given, error);
    return error ? fail_errno("getcwd", error.value()) : Result<std::string>(path.string());
  }
  return fail(
      Code::invalid_argument,
      fmt::format("GANTRY_DIR '{}': a relative path, which is another folder in each process",
                  directory),
      "set it to a path that begins with '/'");
}

Result<void> check_is_directory(const std::string& path, const struct stat& facts) {
  if (S_ISDIR(facts.st_mode)) return {};
  if (S_ISLNK(facts.st_mode))
    return fail(Code::invalid_argument,
                path + ": a symbolic link, which may lead elsewhere at any time",
                "name the directory itself (realpath " + path + ")");
  return fail(Code::invalid_argument, path + ": not a directory",
              "set GANTRY_DIR to a directory of your own");
}

Result<std::string> channel_directory(std::string_view given) {
  GANTRY_ASSIGN(std::string directory, chosen_channel_directory(given));
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(directory, errno, "set GANTRY_DIR to a directory you can write to");
  GANTRY_TRY(check_owner_and_mode(directory, false));
  return directory;
}

Result<std::string> existing_channel_directory(std::string_view given) {
  GANTRY_ASSIGN(std::string directory, chosen_channel_directory(given));
  GANTRY_TRY(check_owner_and_mode(directory, true));
  return directory;
}

bool is_made_up_name(std::string_view name) noexcept {
  return name.starts_with(kQueuePrefix) || name.starts_with("pipe-");
}

Result<void> check_channel_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  };
  const auto refuse = [name](std::string what,
                             const char* hint = "use up to 64 letters, digits, '.', '_' and '-'") {
    return fail(Code::invalid_argument,
                fmt::format("channel name '{}{}", name.substr(0, kLongest), what), hint);
  };
  if (name.empty()) return refuse("': it is empty");
  if (name.size() > kLongest) return refuse(fmt::format("...': {} characters long", name.size()));
  if (name.front() == '.') return refuse("': begins with '.'");
  if (name.find('@') != std::string_view::npos)
    return refuse("': an end of this kind is opened on its own host",
                  "open it there by the name alone; ends of other hosts reach it as NAME@HOST");
  const auto bad = std::ranges::find_if_not(name, allowed);
  if (bad != name.end()) return refuse(fmt::format("': '{}' is not allowed", *bad));
  return {};
}

}  // namespace gantry
