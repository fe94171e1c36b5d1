#pragma once  // remote/bridge_socket.hpp: where a bridge listens, and how it is reached.

#include <sys/stat.h>

#include "remote/tcp.hpp"
#include "remote/tls.hpp"

namespace gantry {

/// Connects to a bridge by TCP, with TLS under its token where that is asked for (by a thread of
/// `carriers`), or at its Unix socket. Errors: as connect_tcp(); TlsSession's; `permission_denied`
/// when this user may not write to the socket's file.
[[nodiscard]] Result<Fd> connect_bridge(const HostPort& where, std::string_view token,
                                        const std::shared_ptr<TlsCarriers>& carriers, int interrupt,
                                        Deadline deadline);

/// A listening socket of either kind. The file of a Unix socket goes with it, and is made anew
/// where one is left that nobody listens at. Its mode is the umask's: who may write to it and knows
/// the token is let in. Move-only.
class BridgeListener {
 public:
  /// Errors: as listen_tcp(); `already_exists` also for a file that is no socket.
  [[nodiscard]] static Result<BridgeListener> open(const HostPort& where, int interrupt = -1);
  BridgeListener() noexcept = default;
  BridgeListener(BridgeListener&& other) noexcept
      : socket_(std::move(other.socket_)),
        path_(std::exchange(other.path_, {})),
        file_(other.file_),
        is_encrypted_(other.is_encrypted_) {}
  BridgeListener& operator=(BridgeListener&&) = delete;
  ~BridgeListener();

  [[nodiscard]] int get() const noexcept { return socket_.get(); }
  [[nodiscard]] bool is_encrypted() const noexcept { return is_encrypted_; }
  /// With the port in use.
  [[nodiscard]] std::string address() const {
    return (is_encrypted_ ? "tls:" : "") + own_address(socket_.get());
  }

 private:
  [[nodiscard]] Result<void> listen_at_path();

  Fd socket_;
  std::string path_;    // of a Unix socket's file
  struct stat file_{};  // as it was made
  bool is_encrypted_ = false;
};

}  // namespace gantry
