#include "net/remote/remote_name.hpp"

#include <algorithm>
#include <gantry/channel.hpp>

#include "core/base/text_lines.hpp"

namespace gantry {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kTls = "tls:";
constexpr std::size_t kLongestHost = 253;  // of a name in the DNS

tl::unexpected<Error> no_host(std::string_view text, std::string_view why) {
  return fail(Code::invalid_argument, fmt::format("host '{}': {}", text, why),
              "write HOST, HOST:PORT, [ADDRESS]:PORT, one of them behind tls:, or unix:/PATH");
}

/// Letters in another order, one too few or too many, large ones, or its former name.
bool is_nearly_tls(std::string_view word) {
  if (word == "ssl") return true;
  std::string letters(word);
  for (char& one : letters) one = one >= 'A' && one <= 'Z' ? static_cast<char>(one + 32) : one;
  std::ranges::sort(letters);
  return letters == "lst" || letters == "ls" || letters == "lt" || letters == "st" ||
         letters == "llst" || letters == "lsst" || letters == "lstt";
}

tl::unexpected<Error> no_port(std::string_view text, std::string_view host, std::string_view port) {
  if (host == "unix") return no_host(text, "a Unix socket's path begins with /");
  auto wrong = no_host(text, fmt::format("'{}' is no port", port));
  const bool is_number = port.find_first_not_of("0123456789") == port.npos;
  if (!is_number && is_nearly_tls(host))
    wrong.value().hint = fmt::format("did you mean {}{}?", kTls, port);
  return wrong;
}

Result<BridgeAddress> parse_socket(std::string_view path) {
  const bool is_plain = std::ranges::none_of(
      path, [](unsigned char letter) { return letter < ' ' || letter == 127; });
  if (is_plain && path.size() <= kLongestSocketPath)
    return BridgeAddress{{}, {}, std::string(path), false};
  return fail(Code::invalid_argument, fmt::format("unix:{}: no path of a socket", path),
              fmt::format("it has at most {} bytes and no control characters", kLongestSocketPath));
}

bool is_port(std::string_view text) {
  return number_in<std::uint16_t>(text).has_value();
}

}  // namespace

std::string BridgeAddress::text() const {
  if (!path.empty()) return fmt::format("{}{}", kUnix, path);
  const bool is_bare = host.find(':') == std::string::npos;
  const std::string_view before = is_encrypted ? kTls : std::string_view();
  const std::string name = fmt::format("{}{}", before, is_bare ? host : fmt::format("[{}]", host));
  return port.empty() ? name : fmt::format("{}:{}", name, port);
}

Result<BridgeAddress> parse_bridge_address(std::string_view text) {
  if (text.starts_with("unix:/")) return parse_socket(text.substr(kUnix.size()));
  if (text.starts_with(kTls) && !is_port(text.substr(kTls.size()))) {  // else a host of that name
    const std::string_view host = text.substr(kTls.size());
    if (host.starts_with("unix:/"))
      return no_host(text, "a Unix socket stays on this machine, and is reached without tls:");
    const bool twice = host.starts_with(kTls) && !is_port(host.substr(kTls.size()));
    if (twice || host.starts_with('/') || host.empty())
      return no_host(text, "tls: stands before a host, as in tls:camera");
    return parse_bridge_address(host).map([](BridgeAddress parsed) {
      parsed.is_encrypted = true;
      return parsed;
    });
  }
  BridgeAddress parsed{std::string(text)};
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return no_host(text, "there is no ']'");
    parsed.host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return no_host(text, "only a port may follow ']'");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else if (const auto colon = text.find(':');
             colon != std::string_view::npos && text.find(':', colon + 1) == text.npos) {
    parsed.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    has_port = true;
  }
  if (has_port && !is_port(port)) return no_port(text, parsed.host, port);
  if (has_port) parsed.port = port;
  // One that began with '-' would be an option to what starts something there.
  if (parsed.host.empty() || parsed.host.size() > kLongestHost || parsed.host.front() == '-')
    return no_host(text, "there is no host of that name");
  for (const char letter : parsed.host)
    if (static_cast<unsigned char>(letter) <= ' ' || letter == '@' || letter == '/' ||
        letter == '[' || letter == ']')
      return no_host(text, "there is no host of that name");
  return parsed;
}

Result<HostPort> parse_host(std::string_view text) {
  GANTRY_ASSIGN(HostPort parsed, parse_bridge_address(text));
  if (parsed.path.empty() && parsed.port.empty()) parsed.port = std::to_string(kBridgePort);
  return parsed;
}

Result<std::optional<RemoteName>> parse_remote_name(std::string_view name) {
  const auto at = name.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  RemoteName parsed{std::string(name.substr(0, at)), {}};
  GANTRY_TRY(check_channel_name(parsed.channel));
  GANTRY_ASSIGN(parsed.where, parse_host(name.substr(at + 1)));
  return parsed;
}

}  // namespace gantry
