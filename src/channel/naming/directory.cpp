#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <gantry/channel/status.hpp>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "base/runtime_directory.hpp"
#include "channel/naming/rendezvous.hpp"

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

}  // namespace

std::string channel_directory_path(std::string_view given) {
  return given.empty() ? runtime_directory_path() : std::string(given);
}

Result<std::string> chosen_channel_directory(std::string_view given) {
  std::string directory = channel_directory_path(given);
  if (!given.empty() || is_absolute(directory)) return directory;
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
  return name.starts_with(kQueuePrefix) || name.starts_with("pipe-") || name.ends_with(".put");
}

Result<void> check_channel_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  };
  const char* hint = "use up to 64 letters, digits, '.', '_' and '-'";
  if (name.empty()) return fail(Code::invalid_argument, "channel name '': it is empty", hint);
  if (name.size() > kLongest)
    return fail(Code::invalid_argument,
                fmt::format("channel name '{}...': {} characters long", name.substr(0, kLongest),
                            name.size()),
                hint);
  if (name.front() == '.')
    return fail(Code::invalid_argument, fmt::format("channel name '{}': begins with '.'", name),
                hint);
  if (name.find('@') != std::string_view::npos)
    return fail(
        Code::invalid_argument,
        fmt::format("channel name '{}': an end of this kind is opened on its own host", name),
        "open it there by the name alone; ends of other hosts reach it as NAME@HOST");
  const auto bad = std::find_if_not(name.begin(), name.end(), allowed);
  if (bad != name.end())
    return fail(Code::invalid_argument,
                fmt::format("channel name '{}': '{}' is not allowed", name, *bad), hint);
  return {};
}

}  // namespace gantry
