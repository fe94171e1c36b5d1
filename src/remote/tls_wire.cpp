#include "remote/tls_wire.hpp"

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>

namespace gantry {
namespace {

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

}  // namespace

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

bool set_wire(ssl_st* ssl, TlsWire& wire) noexcept {
  BIO* const bio = wire_method() != nullptr ? ::BIO_new(wire_method()) : nullptr;
  if (bio == nullptr) return false;
  ::BIO_set_data(bio, &wire);
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(ssl, bio, bio);
  return true;
}

}  // namespace gantry
