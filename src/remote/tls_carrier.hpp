#pragma once  // remote/tls_carrier.hpp: between a connection under TLS and a socket of this
              // process.

#include <poll.h>

#include <gantry/types.hpp>

#include "remote/tls_wire.hpp"

namespace gantry {

/// Passes on what goes in and out, until either end closes. What was sent before an end closed is
/// passed on, unless the other one takes nothing of it for a second, or not all of it in ten.
class TlsCarrier {
 public:
  TlsCarrier(ssl_st* ssl, TlsWire& wire, int here)
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

  ssl_st* const ssl_;
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

}  // namespace gantry
