#include "channel_options.hpp"

#include <fmt/format.h>
#include <pwd.h>

#include <algorithm>

#include "options.hpp"
#include "tools/command_line/suggest.hpp"

namespace gantry::cli {
namespace {

Result<unsigned> parse_user(const std::string& text) {
  if (const auto number = parse_number(text, 0, std::numeric_limits<uid_t>::max()))
    return static_cast<unsigned>(*number);
  const passwd* const entry = ::getpwnam(text.c_str());
  if (entry != nullptr) return static_cast<unsigned>(entry->pw_uid);
  return tl::unexpected(
      Error{Code::invalid_argument, fmt::format("'{}': there is no such user here", text), {}});
}

// The kernel lets anybody connect; whoever is not listed is turned away by the end.
Result<std::optional<Access>> parse_users(std::string_view text) {
  constexpr unsigned kAnybody = 0666;
  Access access;
  access.socket_mode = kAnybody;
  while (true) {
    const auto comma = text.find(',');
    const auto user = parse_user(std::string(text.substr(0, comma)));
    if (!user) return tl::unexpected(user.error());
    access.users.push_back(*user);
    if (comma == std::string_view::npos) return access;
    text.remove_prefix(comma + 1);
  }
}

using Milliseconds = std::chrono::milliseconds;

Result<std::optional<Milliseconds>> parse_remote_time(std::string_view text,
                                                      std::chrono::seconds least) {
  constexpr std::chrono::hours kMost{24};
  const auto time = parse_time(text);
  if (!time) return tl::unexpected(time.error());
  if (*time >= least && *time <= kMost) return std::chrono::ceil<Milliseconds>(*time);
  return tl::unexpected(
      Error{Code::invalid_argument,
            fmt::format("'{}': it is {} s to {} h", text, least.count(), kMost.count()),
            {}});
}

Result<std::optional<Milliseconds>> parse_patience(std::string_view text) {
  return parse_remote_time(text, std::chrono::seconds(0));
}

// Whoever is well says so several times in that time.
Result<std::optional<Milliseconds>> parse_stall_limit(std::string_view text) {
  return parse_remote_time(text, std::chrono::seconds(1));
}

/// The value whose name is `text`, where '-' stands for '_'.
template <class Value, std::size_t Size>
Result<Value> named(std::string_view text, const std::array<Value, Size>& values) {
  std::vector<std::string> names;
  for (const Value value : values) {
    names.emplace_back(to_string(value));
    std::ranges::replace(names.back(), '_', '-');
  }
  std::string wanted(text);
  std::ranges::replace(wanted, '_', '-');
  const auto found = std::ranges::find(names, wanted);
  if (found != names.end()) return values[static_cast<std::size_t>(found - names.begin())];
  return tl::unexpected(Error{Code::invalid_argument, fmt::format("'{}': is none of them", text),
                              suggest(wanted, names)});
}

Result<std::optional<RemotePath>> parse_path(std::string_view text) {
  constexpr std::array kPaths{RemotePath::automatic, RemotePath::stream, RemotePath::fabric,
                              RemotePath::shared};
  return named(text, kPaths).map([](RemotePath path) { return std::optional(path); });
}

}  // namespace

void add_users(const Command& command, std::optional<Access>& access) {
  add_parsed(command, "--users", access, &parse_users, "NAME,...",
             "Other users who may be at the other end; GANTRY_DIR must let them pass (mode 711)");
}

void add_remote_times(const Command& command, RemoteTimes& times) {
  add_parsed(command, "--patience", times.patience, &parse_patience, "SECONDS",
             "Go on when a broken connection to another host comes back in that time (default 5)");
  add_parsed(command, "--stall-limit", times.stall_limit, &parse_stall_limit, "SECONDS",
             "Another host counts as gone after that time of silence (default 10)");
}

Result<SendMode> parse_send_mode(std::string_view text) {
  constexpr std::array kModes{SendMode::automatic, SendMode::whole, SendMode::pipelined,
                              SendMode::streamed, SendMode::immutable};
  return named(text, kModes);
}

Result<std::optional<SlowConsumer>> parse_when_slow(std::string_view text) {
  constexpr std::array kPolicies{SlowConsumer::block, SlowConsumer::drop_newest,
                                 SlowConsumer::drop_oldest, SlowConsumer::disconnect};
  return named(text, kPolicies).map([](SlowConsumer policy) { return std::optional(policy); });
}

void add_path(const Command& command, std::optional<RemotePath>& path) {
  add_parsed(
      command, "--path", path, &parse_path, "PATH",
      "stream, fabric or shared: required path for payload of NAME@HOST (default: the best)");
}

Result<RemotePath> path_of(const std::string& name, const std::optional<RemotePath>& path) {
  if (!path || name.find('@') != std::string::npos) return path.value_or(RemotePath::automatic);
  return tl::unexpected(
      Error{Code::invalid_argument,
            fmt::format("--path: '{}' is a channel of this host, so nothing travels", name),
            "name one of another host: NAME@HOST"});
}

}  // namespace gantry::cli
