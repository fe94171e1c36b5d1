#pragma once  // remote/tls.hpp: connections that nobody on the way can read or change.

#include <memory>
#include <string_view>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace gantry {

/// Errors: `unsupported` in a build without OpenSSL.
[[nodiscard]] Result<void> check_tls();

/// TLS 1.3 (RFC 8446) under a key made of the bridge's token (an external pre-shared key, with a
/// Diffie-Hellman exchange): each end knows that the other has the token, and neither needs a
/// certificate. Move-only.
class TlsSession {
 public:
  /// Shake hands over a connection. Errors: `permission_denied` for another token,
  /// `peer_misbehaved` when the other end does not speak TLS, `peer_gone`, `timed_out`,
  /// `interrupted`, `unsupported`.
  [[nodiscard]] static Result<TlsSession> as_caller(int socket, std::string_view token,
                                                    int interrupt, Deadline deadline);
  [[nodiscard]] static Result<TlsSession> as_bridge(int socket, std::string_view token,
                                                    Deadline deadline);
  TlsSession(TlsSession&&) noexcept;
  TlsSession& operator=(TlsSession&&) noexcept;
  ~TlsSession();

  /// Returns a socket of this process; a thread of its own passes on what goes in and out, until
  /// either end closes. What was sent before an end closed is passed on, unless the other end takes
  /// nothing for a second. A byte that was changed on the way ends the connection.
  [[nodiscard]] Result<Fd> carry(Fd socket) &&;

 private:
  struct Impl;
  explicit TlsSession(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry
