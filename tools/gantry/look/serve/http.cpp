#include "look/serve/http.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace gantry::cli {
namespace {

// Scripts and styles from here alone, nobody may put the page into a frame, and nothing of it is
// taken for something else.
constexpr std::string_view kSafety =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n";

constexpr std::array<std::pair<int, std::string_view>, 8> kReasons{
    {{200, "OK"},
     {400, "Bad Request"},
     {401, "Unauthorized"},
     {404, "Not Found"},
     {405, "Method Not Allowed"},
     {421, "Misdirected Request"},
     {431, "Request Header Fields Too Large"},
     {501, "Not Implemented"}}};

std::string lower(std::string_view text) {
  std::string copy(text);
  std::ranges::transform(copy, copy.begin(), [](unsigned char c) { return std::tolower(c); });
  return copy;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Up to `end`, which is taken off as well.
std::string_view take_until(std::string_view& text, std::string_view end) {
  const auto at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + end.size(), text.size()));
  return part;
}

// RFC 9110, 5.6.2.
bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](unsigned char c) {
    return std::isalnum(c) != 0 || kMarks.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// RFC 3986, 3.2, without a user.
bool is_authority(std::string_view text) {
  constexpr std::string_view kMarks = "-._~!$&'()*+,;=%:[]";
  return std::ranges::all_of(text, [&](unsigned char c) {
    return std::isalnum(c) != 0 || kMarks.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// Each CR is followed by an LF, if by anything yet, each LF follows a CR, and no other control
// character is there but tabulators.
bool has_sound_lines(std::string_view bytes) {
  char last = '\0';
  for (const char c : bytes) {
    const bool is_control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    if ((last == '\r') != (c == '\n')) return false;
    if (is_control && c != '\t' && c != '\r' && c != '\n') return false;
    last = c;
  }
  return true;
}

// Once: of two, another server might take the other one.
bool set_once(std::optional<std::string>& field, std::string_view value) {
  if (field) return false;
  field = value;
  return true;
}

/// What of a request's fields is looked at.
struct Fields {
  std::optional<std::string> host;
  std::optional<std::string> authorization;
  std::optional<std::string> content_length;
  std::string accept;
  bool says_close = false;
};

bool take_field(Fields& fields, std::string_view line) {
  const bool has_colon = line.find(':') != std::string_view::npos;
  const std::string name = lower(take_until(line, ":"));
  std::string_view value = trimmed(line);
  if (!has_colon || !is_token(name) || name == "transfer-encoding") return false;
  if (name == "host") return is_authority(value) && set_once(fields.host, value);
  if (name == "authorization") return set_once(fields.authorization, value);
  if (name == "content-length") return value == "0" && set_once(fields.content_length, value);
  if (name == "accept") fields.accept.append(fields.accept.empty() ? "" : ", ").append(value);
  while (name == "connection" && !value.empty())
    fields.says_close = lower(trimmed(take_until(value, ","))) == "close" || fields.says_close;
  return true;
}

// "/PATH?QUERY", the same behind "http://HOST", which then says whose page is meant, or "*".
bool take_target(HttpRequest& request, std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (lower(target.substr(0, kScheme.size())) == kScheme) {
    target.remove_prefix(kScheme.size());
    const auto end = std::min(target.find_first_of("/?"), target.size());
    request.host = target.substr(0, end);
    target.remove_prefix(end);
    if (request.host->empty() || !is_authority(*request.host)) return false;
  }
  request.path = take_until(target, "?");
  request.query = target;
  if (request.path.empty() && request.host) request.path = "/";
  return request.path.starts_with('/') || (request.path == "*" && request.method == "OPTIONS");
}

bool take_head(HttpRequest& request, std::string_view head) {
  std::string_view line = take_until(head, "\r\n");
  request.method = take_until(line, " ");
  const bool has_target = take_target(request, take_until(line, " "));
  constexpr std::string_view kVersion = "HTTP/1.";
  if (!has_target || !is_token(request.method) || !line.starts_with(kVersion) ||
      line.size() != kVersion.size() + 1 || std::isdigit(line.back()) == 0)
    return false;
  Fields fields;
  while (!head.empty())
    if (!take_field(fields, take_until(head, "\r\n"))) return false;
  const bool is_old = line.ends_with('0');
  if (!request.host) request.host = fields.host;
  request.authorization = fields.authorization.value_or("");
  request.accept = std::move(fields.accept);
  request.keeps_alive = !is_old && !fields.says_close;
  return is_old || fields.host;
}

// Nothing if it is not base64 (RFC 4648).
std::optional<std::string> decoded(std::string_view text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char letter : text) {
    const auto value = kLetters.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<unsigned>(value)) & 0xffffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

bool is_same(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned differs = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    differs |= static_cast<unsigned>(static_cast<unsigned char>(one[i] ^ other[i]));
  return differs == 0;
}

bool is_address(int family, const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(family, text.c_str(), address.data()) == 1;
}

}  // namespace

std::optional<HttpRequest> take_request(std::string& bytes) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  if (bytes.starts_with("\r\n") && !bytes.starts_with(kEnd)) bytes.erase(0, 2);  // RFC 9112, 2.2
  const std::size_t end =
      std::min(std::string_view(bytes).substr(0, kMostRequestBytes).find(kEnd), bytes.size());
  const std::string taken = bytes.substr(0, end + kEnd.size());
  const bool has_lines = has_sound_lines(taken);
  if (end == bytes.size() && has_lines) return std::nullopt;
  bytes.erase(0, taken.size());
  HttpRequest request;
  request.is_sound = has_lines && take_head(request, std::string_view(taken).substr(0, end));
  return request;
}

std::string to_text(const HttpResponse& response, const HttpRequest& request) {
  const auto reason =
      std::ranges::find(kReasons, response.status, [](const auto& one) { return one.first; });
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}",
                                 response.status, reason == kReasons.end() ? "" : reason->second,
                                 response.type, response.body.size(), kSafety);
  if (!response.header.empty()) text += fmt::format("{}\r\n", response.header);
  text += request.keeps_alive ? "\r\n" : "Connection: close\r\n\r\n";
  if (request.method != "HEAD") text += response.body;
  return text;
}

bool is_plain_host(std::string_view host) {
  std::string name = lower(host);
  std::string_view port;
  const bool is_bracketed = name.starts_with('[');
  const std::size_t end = is_bracketed ? name.find(']') : name.find(':');
  if (end != std::string::npos) {
    port = std::string_view(name).substr(end + (is_bracketed ? 1 : 0));
    if (!port.empty() && (port[0] != ':' || port.find_first_not_of("0123456789", 1) != port.npos))
      return false;
    name = name.substr(is_bracketed ? 1 : 0, end - (is_bracketed ? 1 : 0));
  }
  return is_bracketed ? is_address(AF_INET6, name)
                      : name == "localhost" || is_address(AF_INET, name);
}

bool knows_token(std::string_view authorization, std::string_view token) {
  const std::string scheme = lower(take_until(authorization, " "));
  authorization = trimmed(authorization);
  if (scheme == "bearer") return is_same(authorization, token);
  if (scheme != "basic") return false;
  const auto user_and_password = decoded(authorization);
  if (!user_and_password) return false;
  const auto colon = user_and_password->find(':');
  return colon != std::string::npos &&
         is_same(std::string_view(*user_and_password).substr(colon + 1), token);
}

}  // namespace gantry::cli
