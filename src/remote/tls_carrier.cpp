#include "remote/tls_carrier.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>

#include "base/socket.hpp"

namespace gantry {
namespace {

constexpr std::chrono::seconds kLastWords{1};    // in which nothing of them goes
constexpr std::chrono::seconds kMostEnding{10};  // for all of them

}  // namespace

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

}  // namespace gantry
