#pragma once  // tools/gantry/look/serve/http.hpp: as much of HTTP/1.1 (RFC 9112) as a page needs.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantry::cli {

struct HttpRequest {
  std::string method;
  std::string path;                 ///< Before the '?'.
  std::string query;                ///< Behind it.
  std::optional<std::string> host;  ///< Missing from some of HTTP/1.0; browsers always send it.
  std::string authorization;
  std::string accept;
  bool keeps_alive = true;
  bool is_sound = true;  ///< False: the only answer is 400, and the connection ends with it.
};

/// Longer ones are refused.
inline constexpr std::size_t kMostRequestBytes = 8192;

/// Takes the first request off `bytes`; nothing if it is not there whole and may still be sound.
/// A request with a body is not sound, nor is one whose end another server might see elsewhere
/// (RFC 9112, 11.2): folded lines, bare CR or LF, a space before a colon.
[[nodiscard]] std::optional<HttpRequest> take_request(std::string& bytes);

struct HttpResponse {
  int status = 200;
  std::string_view type = "text/plain; charset=utf-8";
  std::string body;
  std::string_view header = {};  ///< One more, "Name: value".
};

/// What is sent; to a HEAD without the body.
[[nodiscard]] std::string to_text(const HttpResponse& response, const HttpRequest& request);

/// True if the host of a request is an address or "localhost", not a name that somebody could make
/// point here (DNS rebinding).
[[nodiscard]] bool is_plain_host(std::string_view host);

/// True if `authorization` is "Bearer TOKEN", or "Basic ..." with TOKEN as the password of anybody.
/// Takes as long whatever the token's first letters are.
[[nodiscard]] bool knows_token(std::string_view authorization, std::string_view token);

}  // namespace gantry::cli
