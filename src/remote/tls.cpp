#include "remote/tls.hpp"

#ifdef GANTRY_HAVE_OPENSSL
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/worker_thread.hpp"
#include "remote/tcp.hpp"
#include "remote/tls_carrier.hpp"
#include "remote/token.hpp"
#endif

namespace gantry {

#ifdef GANTRY_HAVE_OPENSSL
namespace {

// Both ciphers hash with SHA-256, as the key wants it.
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr std::array<unsigned char, 2> kKeysCipher{0x13, 0x01};  // the first of them
constexpr std::string_view kIdentity = "gantry";

struct FreeSsl {
  void operator()(SSL* ssl) const noexcept { ::SSL_free(ssl); }
  void operator()(SSL_CTX* context) const noexcept { ::SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeSsl>;
using Ssl = std::unique_ptr<SSL, FreeSsl>;

// The session that both ends have had, as it were: it carries the key. Null without memory.
SSL_SESSION* make_key(SSL* ssl, const Proof& secret) noexcept {
  SSL_SESSION* const session = ::SSL_SESSION_new();
  const SSL_CIPHER* const cipher = ::SSL_CIPHER_find(ssl, kKeysCipher.data());
  const auto* const key = reinterpret_cast<const unsigned char*>(secret.data());
  if (session != nullptr && cipher != nullptr &&
      ::SSL_SESSION_set1_master_key(session, key, secret.size()) == 1 &&
      ::SSL_SESSION_set_cipher(session, cipher) == 1 &&
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  ::SSL_SESSION_free(session);
  return nullptr;
}

const Proof& secret_of(SSL* ssl) noexcept {
  return *static_cast<const Proof*>(SSL_get_app_data(ssl));
}

int use_key(SSL* ssl, const EVP_MD*, const unsigned char** id, std::size_t* length,
            SSL_SESSION** session) noexcept {
  *id = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *length = kIdentity.size();
  *session = make_key(ssl, secret_of(ssl));
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* id, std::size_t length,
             SSL_SESSION** session) noexcept {
  const std::string_view identity(reinterpret_cast<const char*>(id), length);
  *session = identity == kIdentity ? make_key(ssl, secret_of(ssl)) : nullptr;
  return 1;  // null: nobody's
}

// Not cleaned up at a process's end, when a thread may still speak; unless the program has begun to
// use OpenSSL itself before.
bool is_ready() noexcept {
  return ::OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;
}

Result<Context> make_context() {
  Context context(is_ready() ? ::SSL_CTX_new(::TLS_method()) : nullptr);
  if (!context || ::SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set_ciphersuites(context.get(), kCiphers) != 1 ||
      ::SSL_CTX_set_num_tickets(context.get(), 0) != 1)
    return fail(Code::system, "OpenSSL cannot be set up", "TLS 1.3 must be allowed: openssl.cnf");
  ::SSL_CTX_set_mode(context.get(),
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  ::SSL_CTX_set_psk_use_session_callback(context.get(), use_key);
  ::SSL_CTX_set_psk_find_session_callback(context.get(), find_key);
  return context;
}

// Why a handshake failed. An end with another key is told so by an alert, or finds it itself.
tl::unexpected<Error> refusal() {
  const unsigned long error = ::ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  ::ERR_clear_error();
  const auto is_one_of = [reason](std::initializer_list<int> reasons) {
    return std::ranges::find(reasons, reason) != reasons.end();
  };
  if (error == 0) return fail(Code::peer_gone, "it closed the connection");
  if (is_one_of({SSL_R_WRONG_VERSION_NUMBER, SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_HTTP_REQUEST,
                 SSL_R_HTTPS_PROXY_REQUEST, SSL_R_BAD_RECORD_TYPE, SSL_R_PACKET_LENGTH_TOO_LONG}))
    return fail(Code::peer_misbehaved, "the other end does not encrypt",
                "write tls:HOST at both ends (gantry bridge --listen tls:ADDRESS), or at neither");
  if (is_one_of({SSL_R_BINDER_DOES_NOT_VERIFY, SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER,
                 SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, SSL_R_TLSV1_ALERT_DECRYPT_ERROR}))
    return fail(Code::permission_denied, "the other end has another token",
                "use the token that the bridge was started with (--token-file); or somebody on the "
                "way changes what is said");
  if (is_one_of({SSL_R_CERTIFICATE_VERIFY_FAILED, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM}))
    return fail(Code::peer_misbehaved, "the other end speaks TLS, but not under a token",
                "it is no end of Gantry's; check host and port");
  const char* const text = ::ERR_reason_error_string(error);
  return fail(Code::peer_gone, fmt::format("TLS: {}", text != nullptr ? text : "broken"),
              "it was changed on the way, or the other end is no bridge");
}

}  // namespace

struct TlsSession::Impl {
  Proof secret{};
  TlsWire wire{};
  Context context;
  Ssl ssl;

  [[nodiscard]] static Result<std::unique_ptr<Impl>> shake(int socket, std::string_view token,
                                                           bool is_caller, int interrupt,
                                                           Deadline deadline) {
    auto impl = std::make_unique<Impl>();
    impl->wire.socket = socket;
    impl->secret = prove(token, "gantry tls", {}, {}, {});
    GANTRY_ASSIGN(impl->context, make_context());
    impl->ssl.reset(::SSL_new(impl->context.get()));
    SSL* const ssl = impl->ssl.get();
    if (ssl == nullptr || !set_wire(ssl, impl->wire))
      return fail(Code::out_of_memory, "no memory for a TLS session");
    SSL_set_app_data(ssl, &impl->secret);
    if (is_caller) ::SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);  // no certificate will do
    is_caller ? ::SSL_set_connect_state(ssl) : ::SSL_set_accept_state(ssl);
    for (;;) {
      ::ERR_clear_error();
      const int done = ::SSL_do_handshake(ssl);
      const int why = done == 1 ? SSL_ERROR_NONE : ::SSL_get_error(ssl, done);
      while (!impl->wire.flush()) GANTRY_TRY(await_socket(socket, POLLOUT, interrupt, deadline));
      if (done == 1) return impl;
      if (why != SSL_ERROR_WANT_READ) return refusal();
      GANTRY_TRY(await_socket(socket, POLLIN, interrupt, deadline));
    }
  }
};

Result<void> check_tls() {
  return {};
}

Result<TlsSession> TlsSession::as_caller(int socket, std::string_view token, int interrupt,
                                         Deadline deadline) {
  GANTRY_ASSIGN(auto impl, Impl::shake(socket, token, true, interrupt, deadline));
  return TlsSession(std::move(impl));
}

Result<TlsSession> TlsSession::as_bridge(int socket, std::string_view token, Deadline deadline) {
  GANTRY_ASSIGN(auto impl, Impl::shake(socket, token, false, -1, deadline));
  return TlsSession(std::move(impl));
}

Result<Fd> TlsSession::carry(Fd socket, const std::shared_ptr<TlsCarriers>& carriers) && {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return fail_errno("socketpair");
  Fd given(ends[0]);
  carriers->begin();
  auto work = [impl = std::move(impl_), there = std::move(socket), here = Fd(ends[1]),
               carriers]() mutable {
    static_cast<void>(guarded([&]() -> Result<void> {
      impl->wire.socket = there.get();
      TlsCarrier(impl->ssl.get(), impl->wire, here.get()).run();
      return {};
    }));
    impl.reset();  // all is done and said when its sender hears that this is over
    there.reset();
    carriers->end();
  };
  auto thread = start_thread("a thread for TLS", std::move(work));
  if (!thread) {
    carriers->end();
    return tl::unexpected(std::move(thread).error());
  }
  thread->detach();  // it ends with the connection, and uses nothing but its own
  return given;
}

#else

struct TlsSession::Impl {};

Result<void> check_tls() {
  return fail(Code::unsupported, "this build cannot encrypt: OpenSSL was not found",
              "install libssl-dev and build again");
}
Result<TlsSession> TlsSession::as_caller(int, std::string_view, int, Deadline) {
  return tl::unexpected(check_tls().error());
}
Result<TlsSession> TlsSession::as_bridge(int, std::string_view, Deadline) {
  return tl::unexpected(check_tls().error());
}
Result<Fd> TlsSession::carry(Fd, const std::shared_ptr<TlsCarriers>&) && {
  return tl::unexpected(check_tls().error());
}

#endif

TlsSession::TlsSession(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;
TlsSession::~TlsSession() = default;

}  // namespace gantry
