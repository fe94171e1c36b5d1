#pragma once  // remote/tls_wire.hpp: the encrypted side of a connection.

#include <gantry/types.hpp>
#include <vector>

struct ssl_st;  // OpenSSL's SSL

namespace gantry {

/// What is on its way in one direction, in one of the places where it waits.
inline constexpr Bytes kTlsBufferBytes = Bytes{256} << 10;

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
[[nodiscard]] bool set_wire(ssl_st* ssl, TlsWire& wire) noexcept;

}  // namespace gantry
