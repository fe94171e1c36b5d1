#pragma once  // remote/admission.hpp: how a bridge is reached, and how it and its caller convince
              // each other.

#include <sys/stat.h>

#include <gantry/channel.hpp>
#include <gantry/link.hpp>

#include "core/base/os/fd.hpp"
#include "net/remote/tcp.hpp"
#include "net/remote/tls.hpp"
#include "net/remote/token.hpp"
#include "net/remote/words.hpp"

namespace gantry {

// The caller offers paths, the bridge takes one of them: anew for each connection of a session.

/// A bit for each path, 1 << its number. Of an offer: not empty, and `automatic` is not in it.
using RemotePaths = std::uint8_t;
[[nodiscard]] constexpr RemotePaths bit_of(RemotePath path) noexcept {
  return static_cast<RemotePaths>(1u << static_cast<unsigned>(path));
}
inline constexpr RemotePath kLastPath = RemotePath::shared;
inline constexpr RemotePaths kAllPaths =
    bit_of(RemotePath::stream) | bit_of(RemotePath::fabric) | bit_of(RemotePath::shared);

/// A caller's and its bridge's.
struct BridgeConnection {
  int socket = -1;
  bool is_encrypted = false;  // then payload has to go down the socket
};

/// What a caller takes over its connection to the bridge. Errors: `unsupported` when the path that
/// it wants cannot be had there.
[[nodiscard]] Result<RemotePaths> paths_to_offer(RemotePath wanted, BridgeConnection connection);
/// Whether libfabric can make a link on this machine. Errors: `unsupported`, `system`.
[[nodiscard]] Result<void> try_fabric();
/// Which one is used, and why, for people.
/// `served`: RemoteAnswer::served.
[[nodiscard]] std::string path_text(RemotePath wanted, RemotePath taken, bool is_encrypted,
                                    std::string_view served = {});

/// The link of that path over a socket that was connected a moment ago. Errors: `peer_gone`,
/// `system`, `unsupported`.
[[nodiscard]] Result<std::unique_ptr<Link>> link_over(RemotePath path, Fd socket,
                                                      std::shared_ptr<Engine> engine,
                                                      LinkOptions options);
/// Waits until payload can take the path. Errors: `unsupported` when it cannot until the deadline,
/// `interrupted`, the link's end.
[[nodiscard]] Result<void> await_path(RemotePath path, Link& link, int interrupt,
                                      Deadline deadline);

// Over TLS if both want that (TlsSession); then:
// bridge -> caller  a nonce
// caller -> bridge  a nonce, a proof of knowing the token that covers both nonces and the request
// bridge -> caller  a proof that covers the same and the answer
// So a stranger learns nothing of the token, and neither can be played back. From there on the
// socket is a link's. docs/formats/remote.md

/// What an end of another host wants to be to a channel here.
enum class RemoteRole : std::uint8_t {
  consume = 1,  ///< A consumer of the channel.
  deliver,      ///< A producer at the inbox of that name.
  publish,      ///< The producer that has the name.
  look,         ///< No end: it asks how all channels stand, and names none.
  call,         ///< A client of the service of that name.
};
[[nodiscard]] std::string_view verb_of(RemoteRole role) noexcept;  ///< "consumes"

/// How long either may take to answer the other.
inline constexpr std::chrono::seconds kAdmissionTime{5};

/// Which session goes on. All zero: a new one.
using SessionId = std::array<std::byte, 16>;

struct RemoteRequest {
  RemoteRole role = RemoteRole::consume;
  SessionId session{};
  std::string channel;
  EndName who{};  // whose end it is; for display
  SlowConsumer when_slow = SlowConsumer::block;
  unsigned depth = 0;
  unsigned slots = 8;
  unsigned consumers = 1;
  /// The number of the last message that the caller has, when it goes on as the receiving side.
  std::uint64_t received = 0;
  RemotePaths paths = bit_of(RemotePath::stream);  // what the caller takes
  /// How long the caller may take to notice that it hears nothing; 0: it never notices.
  std::chrono::milliseconds stall_limit{0};

  static constexpr std::chrono::milliseconds kLongestStallLimit = std::chrono::minutes(10);
  static constexpr std::size_t kMostBytes = 512;
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Errors: `peer_misbehaved`.
  [[nodiscard]] static Result<RemoteRequest> decode(ConstByteSpan bytes);
};

struct RemoteAnswer {
  std::optional<Error> refusal;
  SessionId session{};
  std::uint64_t received = 0;  ///< As in the request, by the bridge.
  RemotePath path = RemotePath::stream;
  std::string served{};  ///< Where, and why there, for people.

  static constexpr std::size_t kLongestServed = 256;
  static constexpr std::size_t kMostBytes = 64 + 2 * kLongestRemoteText;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static Result<RemoteAnswer> decode(ConstByteSpan bytes);
};

/// The caller's part. Errors: `permission_denied` for another token; the refusal; `peer_misbehaved`
/// for what is no bridge of this version, or does not know the token itself; `timed_out`,
/// `interrupted`, `peer_gone`.
[[nodiscard]] Result<RemoteAnswer> call_bridge(int socket, std::string_view token,
                                               const RemoteRequest& request, int interrupt,
                                               Deadline deadline);

/// The bridge's part: hears the request, then answers it.
class Admission {
 public:
  Admission(int socket, std::string_view token) : socket_(socket), token_(token) {}
  /// Errors: `permission_denied` for a caller without the token, which has been told;
  /// `peer_misbehaved`, `timed_out`, `peer_gone`.
  [[nodiscard]] Result<RemoteRequest> hear(Deadline deadline);
  [[nodiscard]] Result<void> answer(const RemoteAnswer& answer, Deadline deadline);

 private:
  int socket_;
  std::string_view token_;
  Nonce own_{};
  Nonce callers_{};
};

/// What a bridge that encrypts says, in place of its nonce, to a caller that does not and so waits
/// for it.
void say_encrypts(int socket);

/// Takes the best path that both ends have, or refuses.
void answer_path(RemotePaths offered, BridgeConnection connection, RemoteAnswer& answer);

/// Connects to a bridge by TCP, with TLS under its token where that is asked for (by a thread of
/// `carriers`), or at its Unix socket. Errors: as connect_tcp(); TlsSession's; `permission_denied`
/// when this user may not write to the socket's file.
[[nodiscard]] Result<Fd> connect_bridge(const HostPort& where, std::string_view token,
                                        const std::shared_ptr<DetachedThreads>& carriers,
                                        int interrupt, Deadline deadline);

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
