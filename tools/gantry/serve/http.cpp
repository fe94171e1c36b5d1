#include "serve/http.hpp"

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

void take_field(HttpRequest& request, std::string_view line) {
  const std::string name = lower(take_until(line, ":"));
  const std::string value(trimmed(line));
  if (name == "host") {
    request.is_sound = request.is_sound && request.host.empty();  // two of them: which is meant?
    request.host = value;
  } else if (name == "authorization") {
    request.authorization = value;
  } else if (name == "accept") {
    request.accept = value;
  } else if (name == "connection") {
    request.keeps_alive = lower(value).find("close") == std::string::npos;
  } else if (name == "transfer-encoding" || (name == "content-length" && value != "0")) {
    request.is_sound = false;
  }
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
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string::npos) return std::nullopt;
  const std::string head = bytes.substr(0, end);
  bytes.erase(0, end + 4);
  std::string_view rest = head;
  std::string_view line = take_until(rest, "\r\n");
  HttpRequest request;
  request.method = take_until(line, " ");
  std::string_view target = take_until(line, " ");
  request.path = take_until(target, "?");
  request.query = target;
  request.is_sound = request.path.starts_with('/') && line.starts_with("HTTP/1.");
  request.keeps_alive = line != "HTTP/1.0";
  while (!rest.empty()) take_field(request, take_until(rest, "\r\n"));
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
