#include "core/channel/naming/access.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "core/channel/naming/rendezvous.hpp"

namespace gantry {
namespace {

template <class Id>
bool lists(const std::vector<Id>& list, Id id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

// Checks the groups that it had when it connected, the first one included.
bool is_of_listed_group(int socket, const Access& access) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return false;
  if (lists(access.groups, credentials.gid)) return true;
  std::vector<gid_t> groups(64);
  size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) {
    if (errno != ERANGE) return false;
    groups.resize(size / sizeof(gid_t));  // as many as there are, says the kernel
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) return false;
  }
  groups.resize(size / sizeof(gid_t));
  return std::any_of(groups.begin(), groups.end(),
                     [&](gid_t group) { return lists(access.groups, group); });
}

// Root needs no permission; `self` has its own.
bool lists_others(const Access& access, uid_t self) {
  return std::ranges::any_of(access.users, [self](unsigned user) {
    return user != 0 && user != ::geteuid() && user != self;
  });
}

}  // namespace

Result<void> check_access(const Access& access) {
  if (access.token.size() > kTokenBytes)
    return fail(Code::invalid_argument, fmt::format("a token of {} bytes; at most {} are possible",
                                                    access.token.size(), kTokenBytes));
  if ((access.socket_mode & ~0777u) != 0)
    return fail(Code::invalid_argument, fmt::format("socket mode {:o}", access.socket_mode));
  return {};
}

Result<void> admit_peer(int socket, const Access& access) {
  GANTRY_ASSIGN(const PeerIdentity peer, peer_of(socket));
  if (peer.uid == ::geteuid() || peer.uid == 0 || lists(access.users, peer.uid) ||
      (!access.groups.empty() && is_of_listed_group(socket, access)))
    return {};
  return fail(Code::permission_denied,
              fmt::format("process {} of user {} is not allowed here", peer.pid, peer.uid),
              "list the user or one of its groups in EndOptions::access");
}

Result<void> check_reach(const std::string& directory, const std::string& name,
                         const Access& access) {
  const bool has_groups = !access.groups.empty();
  if (!has_groups && !lists_others(access, ::geteuid())) return {};
  // A new socket's group is only chosen by a list of groups.
  const mode_t write = has_groups ? S_IWGRP | S_IWOTH : S_IWOTH;
  if ((access.socket_mode & write) == 0)
    return fail(
        Code::invalid_argument,
        fmt::format("channel '{}': {}/{}{} would have mode {:04o}, which keeps out those whom "
                    "EndOptions::access lists",
                    name, directory, name, kSocketSuffix, access.socket_mode),
        "set Access::socket_mode to 0666 (the lists still decide), and chmod 711 " + directory);
  struct stat facts{};
  if (::stat(directory.c_str(), &facts) != 0) return fail_errno(directory);
  // Its group may be theirs: whoever made the folder chose it.
  if ((facts.st_mode & (S_IXGRP | S_IXOTH)) != 0) return {};
  if (!has_groups && !lists_others(access, facts.st_uid)) return {};
  return fail(Code::invalid_argument,
              fmt::format("channel '{}': {} has mode {:04o}, which lets none of those pass whom "
                          "EndOptions::access lists",
                          name, directory, facts.st_mode & 0777),
              "chmod 711 " + directory);
}

FileAccess file_access(const Access& access) {
  FileAccess file{access.socket_mode, {}};
  if ((access.socket_mode & S_IRWXG) != 0 && !access.groups.empty())
    file.group = access.groups.front();
  return file;
}

WireToken wire_token(const Access& access) noexcept {
  WireToken token{};
  std::memcpy(token.data(), access.token.data(), std::min(access.token.size(), kTokenBytes));
  return token;
}

bool is_same_token(const Access& access, const WireToken& theirs) noexcept {
  const WireToken ours = wire_token(access);
  unsigned difference = 0;
  for (std::size_t i = 0; i < kTokenBytes; ++i)
    difference |= static_cast<unsigned>(ours[i]) ^ static_cast<unsigned>(theirs[i]);
  return difference == 0;
}

Result<std::string> channel_directory(std::string_view given, const Access& access) {
  if (access.users.empty() && access.groups.empty()) return channel_directory(given);
  GANTRY_ASSIGN(std::string directory, chosen_channel_directory(given));
  struct stat facts{};
  if (::lstat(directory.c_str(), &facts) != 0) {
    if (errno != ENOENT) return fail_errno(directory);
    GANTRY_ASSIGN(directory, channel_directory(given));  // ours, and as private as ever
    return directory;
  }
  GANTRY_TRY(check_is_directory(directory, facts));
  if (facts.st_uid != ::geteuid() && facts.st_uid != 0 && !lists(access.users, facts.st_uid))
    return fail(Code::permission_denied,
                fmt::format("{}: belongs to user {}, who is not listed", directory, facts.st_uid),
                "list the user in EndOptions::access");
  constexpr mode_t kMoreThanPassing = S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
  if ((facts.st_mode & kMoreThanPassing) != 0)
    return fail(Code::permission_denied,
                fmt::format("{}: others can do more than pass through (mode {:03o})", directory,
                            facts.st_mode & 0777),
                "chmod 711 " + directory);
  return directory;
}

}  // namespace gantry
