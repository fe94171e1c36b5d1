#include "net/remote/tls.hpp"

#ifdef GANTRY_HAVE_OPENSSL
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <new>
#include <thread>
#include <vector>

#include "core/base/os/socket.hpp"
#include "core/base/os/worker_thread.hpp"
#include "net/remote/tcp.hpp"
#include "net/remote/token.hpp"
#endif

namespace gantry {

#ifdef GANTRY_HAVE_OPENSSL
namespace {

/// What is on its way in one direction, in one of the places where it waits.
constexpr Bytes kTlsBufferBytes = Bytes{256} << 10;

/// OpenSSL would ask the system twice for each 16 KiB, and with a signal for who is gone. So what
/// it writes gathers here, and what it reads came in larger parts.
struct TlsWire {
  int socket = -1;
  std::vector<unsigned char> out{};
  std::size_t sent = 0;  // of out
  std::vector<unsigned char> in = std::vector<unsigned char>(kTlsBufferBytes);
  std::size_t at = 0;
  std::size_t end = 0;
  bool is_cut = false;  // nothing can be sent any more

  [[nodiscard]] bool is_flushed() const noexcept { return sent == out.size(); }
  /// Sends what goes without waiting. False: some is left.
  bool flush() noexcept;
};

/// From now on the session reads from the wire and writes to it; the wire outlives it. False: there
/// is no memory.
[[nodiscard]] bool set_wire(SSL* ssl, TlsWire& wire) noexcept;

TlsWire& wire_of(BIO* bio) noexcept {
  return *static_cast<TlsWire*>(::BIO_get_data(bio));
}

int write_wire(BIO* bio, const char* bytes, std::size_t size, std::size_t* done) noexcept {
  BIO_clear_retry_flags(bio);
  TlsWire& wire = wire_of(bio);
  *done = 0;
  if (wire.is_cut) return 0;
  if (wire.out.size() >= kTlsBufferBytes && !wire.flush()) {
    BIO_set_retry_write(bio);
    return 0;
  }
  try {
    wire.out.insert(wire.out.end(), bytes, bytes + size);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  *done = size;
  return 1;
}

int read_wire(BIO* bio, char* into, std::size_t size, std::size_t* done) noexcept {
  BIO_clear_retry_flags(bio);
  TlsWire& wire = wire_of(bio);
  *done = 0;
  if (wire.at == wire.end) {
    const auto got = ::recv(wire.socket, wire.in.data(), wire.in.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    if (got <= 0) return 0;
    wire.at = 0;
    wire.end = static_cast<std::size_t>(got);
  }
  *done = std::min(size, wire.end - wire.at);
  std::copy_n(wire.in.data() + wire.at, *done, reinterpret_cast<unsigned char*>(into));
  wire.at += *done;
  return 1;
}

long control_wire(BIO*, int what, long, void*) noexcept {
  return what == BIO_CTRL_FLUSH ? 1 : 0;
}

// Null without memory. One for all, and never freed.
const BIO_METHOD* wire_method() noexcept {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const made = ::BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gantry");
    if (made != nullptr) {
      ::BIO_meth_set_write_ex(made, write_wire);
      ::BIO_meth_set_read_ex(made, read_wire);
      ::BIO_meth_set_ctrl(made, control_wire);
    }
    return made;
  }();
  return method;
}

bool TlsWire::flush() noexcept {
  while (!is_flushed() && !is_cut) {
    const auto count =
        ::send(socket, out.data() + sent, out.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) sent += static_cast<std::size_t>(count);
    if (count >= 0 || errno == EINTR) continue;
    if (errno == EAGAIN) return false;
    is_cut = true;
  }
  out.clear();
  sent = 0;
  return true;
}

bool set_wire(SSL* ssl, TlsWire& wire) noexcept {
  BIO* const bio = wire_method() != nullptr ? ::BIO_new(wire_method()) : nullptr;
  if (bio == nullptr) return false;
  ::BIO_set_data(bio, &wire);
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(ssl, bio, bio);
  return true;
}

/// Passes on what goes in and out, until either end closes. What was sent before an end closed is
/// passed on, unless the other one takes nothing of it for a second, or not all of it in ten.
class TlsCarrier {
 public:
  TlsCarrier(SSL* ssl, TlsWire& wire, int here)
      : ssl_(ssl), wire_(wire), here_{.socket = here}, there_{.socket = wire.socket} {}
  ~TlsCarrier();
  TlsCarrier(const TlsCarrier&) = delete;
  TlsCarrier& operator=(const TlsCarrier&) = delete;
  void run();

 private:
  struct End {
    int socket = -1;
    bool may_have_more = true;  // to be read, without asking it
    bool is_over = false;       // nothing more can be read
    bool has_hung_up = false;   // then it is readable for ever
  };
  /// Bytes on their way in one direction.
  struct Parcel {
    std::vector<unsigned char> bytes = std::vector<unsigned char>(kTlsBufferBytes);
    std::size_t at = 0;
    std::size_t end = 0;
    [[nodiscard]] bool is_empty() const noexcept { return at == end; }
    [[nodiscard]] unsigned char* rest() noexcept { return bytes.data() + at; }
    [[nodiscard]] std::size_t left() const noexcept { return end - at; }
    void fill(std::size_t count) noexcept {
      at = 0;
      end = count;
    }
  };

  void send_out();
  void take_in();
  /// After a call that did nothing.
  [[nodiscard]] int why_not() noexcept;
  void sleep(Deadline deadline);
  [[nodiscard]] static pollfd entry_of(const End& end, bool reads, bool writes) noexcept;
  static void note(const pollfd& entry, End& end) noexcept;
  void end() noexcept;

  SSL* const ssl_;
  TlsWire& wire_;
  End here_;
  End there_;
  Parcel out_;
  Parcel in_;
  bool is_deaf_ = false;  // nobody here takes anything any more
  bool has_moved_ = false;
  Deadline last_words_ = Deadline::never();  // in which more of them has to go
  Deadline ends_by_ = Deadline::never();
};

constexpr std::chrono::seconds kLastWords{1};    // in which nothing of them goes
constexpr std::chrono::seconds kMostEnding{10};  // for all of them

// Closing alone would not end a socket of which a fork has a copy.
TlsCarrier::~TlsCarrier() {
  ::shutdown(there_.socket, SHUT_RDWR);
  ::shutdown(here_.socket, SHUT_RDWR);
}

void TlsCarrier::run() {
  for (;;) {
    has_moved_ = false;
    send_out();
    take_in();
    const bool is_said = here_.is_over && out_.is_empty() && wire_.is_flushed();
    if (is_said || wire_.is_cut || (there_.is_over && in_.is_empty())) return end();
    const bool is_ending = here_.is_over || here_.has_hung_up;
    if (!is_ending) ends_by_ = Deadline::after(kMostEnding);
    if (!is_ending || has_moved_) last_words_ = Deadline::after(kLastWords);
    if (is_ending && (ends_by_.passed() || last_words_.passed())) return;
    if (!has_moved_) sleep(is_ending ? last_words_ : Deadline::never());
  }
}

void TlsCarrier::send_out() {
  if (out_.is_empty() && !here_.is_over && here_.may_have_more) {
    const auto got = ::recv(here_.socket, out_.bytes.data(), kTlsBufferBytes, MSG_DONTWAIT);
    out_.fill(got > 0 ? static_cast<std::size_t>(got) : 0);
    here_.is_over = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    here_.may_have_more = got > 0;
  }
  for (std::size_t sent = 0; !out_.is_empty(); out_.at += sent) {
    if (::SSL_write_ex(ssl_, out_.rest(), out_.left(), &sent) != 1) {
      const int why = why_not();
      wire_.is_cut |= why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE;
      break;
    }
    has_moved_ = true;
  }
  wire_.flush();
}

void TlsCarrier::take_in() {
  if (in_.is_empty() && !there_.is_over && !is_deaf_ && there_.may_have_more) {
    in_.fill(0);
    for (std::size_t got = 0; in_.end < kTlsBufferBytes; in_.end += got) {
      if (::SSL_read_ex(ssl_, in_.bytes.data() + in_.end, kTlsBufferBytes - in_.end, &got) == 1)
        continue;
      const int why = why_not();
      there_.is_over = why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE;
      there_.may_have_more = why == SSL_ERROR_WANT_WRITE;  // what has come is looked at behind that
      break;
    }
  }
  while (!in_.is_empty()) {
    const auto sent = ::send(here_.socket, in_.rest(), in_.left(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      in_.at += static_cast<std::size_t>(sent);
      has_moved_ = true;
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      in_.fill(0);  // nobody takes it any more
      is_deaf_ = true;
    }
  }
}

int TlsCarrier::why_not() noexcept {
  const int why = ::SSL_get_error(ssl_, 0);
  ::ERR_clear_error();
  return why;
}

void TlsCarrier::sleep(Deadline deadline) {
  const bool is_wanted = in_.is_empty() && !there_.is_over && !is_deaf_;
  const bool gives_more = out_.is_empty() && !here_.is_over;
  std::array<pollfd, 2> entries{entry_of(there_, is_wanted, !wire_.is_flushed()),
                                entry_of(here_, gives_more, !in_.is_empty())};
  ::poll(entries.data(), entries.size(), poll_timeout_ms(deadline));
  note(entries[0], there_);
  note(entries[1], here_);
}

pollfd TlsCarrier::entry_of(const End& end, bool reads, bool writes) noexcept {
  const int events = (reads ? POLLIN : 0) | (writes ? POLLOUT : 0);
  return {end.has_hung_up && events == 0 ? -1 : end.socket, static_cast<short>(events), 0};
}

void TlsCarrier::note(const pollfd& entry, End& end) noexcept {
  const bool has_hung_up = (entry.revents & (POLLHUP | POLLERR)) != 0;
  end.may_have_more |= has_hung_up || (entry.revents & POLLIN) != 0;
  end.has_hung_up |= has_hung_up;
}

// Whoever closes a connection before it has read all of it cuts off what it has said itself.
void TlsCarrier::end() noexcept {
  if (wire_.is_cut || there_.is_over) return;
  ::SSL_shutdown(ssl_);
  ::ERR_clear_error();
  wire_.flush();
  ::shutdown(there_.socket, SHUT_WR);
  for (const Deadline deadline = Deadline::after(kLastWords); !deadline.passed();) {
    const auto got = ::recv(there_.socket, in_.bytes.data(), kTlsBufferBytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    pollfd entry{there_.socket, POLLIN, 0};
    if (got < 0) ::poll(&entry, 1, poll_timeout_ms(deadline));
  }
}
// ---- the session ---------------------------------------------------------------------------

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

Result<Fd> TlsSession::carry(Fd socket, const std::shared_ptr<DetachedThreads>& carriers) && {
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
Result<Fd> TlsSession::carry(Fd, const std::shared_ptr<DetachedThreads>&) && {
  return tl::unexpected(check_tls().error());
}

#endif

TlsSession::TlsSession(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;
TlsSession::~TlsSession() = default;

}  // namespace gantry
