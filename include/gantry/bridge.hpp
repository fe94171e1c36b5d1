#pragma once  // gantry/bridge.hpp: gives other hosts access to the channels of this one.

#include <functional>
#include <gantry/channel.hpp>
#include <gantry/engine.hpp>
#include <gantry/runtime.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <string>

namespace gantry {

/// Port of a bridge if none is given.
inline constexpr unsigned kBridgePort = 4744;

/// Address of a bridge.
struct GANTRY_API BridgeAddress {
  std::string host;       ///< A name or an address, without brackets.
  std::string port = {};  ///< Port; empty: none was given.
  std::string path = {};  ///< Path of a Unix socket, which has no host; otherwise empty.
  /// Data is encrypted and protected from changes: TLS 1.3 under the bridge's token. Payload takes
  /// the path `stream`, and costs one more copy and a thread at each end.
  bool is_encrypted = false;
  /// Text that parse_bridge_address() reads: "host", "host:port", "[::1]:port", "tls:host:port",
  /// "unix:/path".
  [[nodiscard]] std::string text() const;
};

/// Reads HOST[:PORT], where an IPv6 address needs brackets if a port follows; tls:HOST[:PORT] for
/// encrypted data; or unix:/PATH, a socket of at most 107 bytes in a folder that both ends see.
/// Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<BridgeAddress> parse_bridge_address(std::string_view text);

/// Connects a blocking TCP socket to that host, for a program's own protocol. The caller closes it.
/// The host's addresses share the time until `deadline`, as in RFC 8305; a name server that does
/// not answer is abandoned. Errors: `not_found` (no such host, or no listener), `timed_out`,
/// `interrupted` when the descriptor (-1: none) is readable, `system`.
[[nodiscard]] GANTRY_API Result<int> connect_host(const BridgeAddress& where,
                                                  int interrupt_descriptor, Deadline deadline);

/// Makes a non-blocking TCP socket that listens at that address, for a program's own protocol. The
/// caller closes it. Errors: `already_exists` when the port is taken, `not_found` when this host
/// does not have the address, `interrupted` as connect_host(), `permission_denied`, `system`.
[[nodiscard]] GANTRY_API Result<int> listen_at(const BridgeAddress& where,
                                               int interrupt_descriptor);

/// Reads a bridge's token: the first line of a file that only its owner and root can read. 16 to 64
/// bytes. Errors: `not_found`, `permission_denied` when others can read the file,
/// `invalid_argument`.
[[nodiscard]] GANTRY_API Result<std::string> read_bridge_token(const std::string& path);

/// Address of a bridge, and its conditions of admission.
struct BridgeOptions {
  /// ADDRESS[:PORT] with an address of this host; "0.0.0.0" means all addresses. With "tls:" in
  /// front, only encrypting callers are admitted. Or unix:/PATH, for processes of this kernel.
  /// Required; there is no default.
  std::string listen = {};
  /// Callers that know the token may use every channel that this process may use. 16 to 64 bytes.
  std::string token = {};
  std::string directory = {};  ///< Folder of the channels; if empty: that of channel_directory().
  /// Limit of ends of other hosts that this bridge serves at a time; each uses a thread. An end
  /// that it hands over is its channel's process's: 256 a name, with half of the descriptors there.
  unsigned sessions = 256;
  std::chrono::milliseconds stall_limit{10'000};  ///< As in RemoteOptions.
  std::chrono::milliseconds patience{5'000};      ///< As in RemoteOptions.
  /// serve() returns when this descriptor is readable. Not owned.
  int interrupt_descriptor = -1;
  /// Called for each event with one line of text, by any of the bridge's threads.
  std::function<void(const std::string& line)> on_event = {};
};

/// A gateway: listens, admits callers that prove that they know the token, and connects each end of
/// another host to a channel of this one, as a separate end. Payload goes straight from the
/// sender's memory to the socket, and from the socket into the receiver's memory; for other paths
/// see RemotePath. Data is encrypted only at tls:ADDRESS: on any other address, an attacker in the
/// network can read and change it.
class GANTRY_API Bridge {
 public:
  /// Listens. Errors: `invalid_argument`, `already_exists` when the port is taken, `not_found` when
  /// this host does not have the address, `permission_denied`, `unsupported` without libsodium, or
  /// without OpenSSL if `listen` begins with "tls:".
  [[nodiscard]] static Result<Bridge> open(const BridgeOptions& options,
                                           std::shared_ptr<Engine> engine);
  Bridge(Bridge&&) noexcept;
  Bridge& operator=(Bridge&&) noexcept;
  ~Bridge();  ///< Ends every session that it serves itself.

  [[nodiscard]] std::string address()
      const;  ///< "127.0.0.1:4744", with the actual port; "tls:..."; "unix:/path".
  /// Serves until the interrupt descriptor is readable. Errors: `system`.
  [[nodiscard]] Result<void> serve();

  class Impl;

 private:
  explicit Bridge(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

/// The channel to mirror, and its bridge.
struct MirrorOptions {
  /// NAME@HOST[:PORT]: the remote channel.
  std::string name = {};
  /// Options of the remote consumer: its policy, its depth, the way to its bridge.
  ConsumerOptions there = {};
  /// Options of the local producer, whose name is NAME. Set `consumers` for several readers.
  ProducerOptions here = {};
  /// serve() returns when this descriptor is readable. Not owned.
  int interrupt_descriptor = -1;
  /// Whether serve() returns at the end of the first stream.
  bool is_for_one_stream = false;
  /// Called for each event with one line of text, by the thread in serve().
  std::function<void(const std::string& line)> on_event = {};
};

/// Offers a channel of another host under its name on this host: each message crosses the network
/// once, however many local consumers read it, and stays where it landed. Consumers join the mirror
/// like any local channel, with their own policies; a consumer that blocks delays the remote
/// producer. Consumers see the end of the stream: `closed`, or `peer_gone` when the remote
/// producer, its bridge or the network is gone. The mirror then waits for the next remote producer,
/// and consumers may rejoin(). Messages get new numbers.
class GANTRY_API Mirror {
 public:
  /// Takes the local name. Errors: `invalid_argument` for a name without another host and for
  /// options, `already_exists` when a live process has the local name.
  [[nodiscard]] static Result<Mirror> open(const MirrorOptions& options,
                                           std::shared_ptr<Engine> engine);
  Mirror(Mirror&&) noexcept;
  Mirror& operator=(Mirror&&) noexcept;
  ~Mirror();  ///< Consumers get `peer_gone`, unless the stream has ended.

  /// Serves until the interrupt descriptor is readable, or, with is_for_one_stream, until the first
  /// stream ends. Once it has reached the bridge, it reconnects without limit. Errors: those of a
  /// remote consumer; the error that ended the single stream; `already_exists` when another process
  /// took the local name between two streams.
  [[nodiscard]] Result<void> serve();

  class Impl;

 private:
  explicit Mirror(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

/// Lists the channels of another host, as list_channels(), by asking the bridge at HOST[:PORT].
/// Errors: those of a remote end; `interrupted` when `interrupt` (-1: none) is readable.
[[nodiscard]] GANTRY_API Result<std::vector<ChannelStatus>> list_remote_channels(
    std::string_view host, const RemoteOptions& options, Deadline deadline, int interrupt = -1);

}  // namespace gantry
