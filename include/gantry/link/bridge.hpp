#pragma once  // gantry/link/bridge.hpp: by which other hosts reach the channels of this one.

#include <functional>
#include <gantry/channel/options.hpp>
#include <gantry/channel/status.hpp>
#include <gantry/engine.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <string>

namespace gantry {

/// The port of a bridge if none is given.
inline constexpr unsigned kBridgePort = 4744;

/// Where a bridge is.
struct GANTRY_API BridgeAddress {
  std::string host;       ///< A name or an address, without brackets.
  std::string port = {};  ///< Empty: none was given.
  std::string path = {};  ///< Of a Unix socket, which has no host; else empty.
  /// What travels is encrypted, and both ends know that nobody changes it: TLS 1.3 under the
  /// bridge's token. Payload takes the path stream, and costs a copy more and a thread at each end.
  bool is_encrypted = false;
  /// "host:port", "[::1]:port"; without a port the host; "tls:host:port"; "unix:/path".
  [[nodiscard]] std::string text() const;
};

/// HOST[:PORT]; an address of IPv6 stands in brackets if a port follows. tls:HOST[:PORT] if what
/// travels is to be encrypted. Or unix:/PATH, a socket in a folder that both ends see, of at most
/// 107 bytes. Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<BridgeAddress> parse_bridge_address(std::string_view text);

/// A blocking socket of TCP that is connected to that host, for a program's own words. The caller
/// closes it. The host's addresses share the time, as RFC 8305 says; a name server that does not
/// answer is left behind. Errors: `not_found` (no such host, nobody listens), `timed_out`,
/// `interrupted` when the descriptor (-1: none) is readable, `system`.
[[nodiscard]] GANTRY_API Result<int> connect_host(const BridgeAddress& where,
                                                  int interrupt_descriptor, Deadline deadline);

/// A non-blocking socket of TCP that listens there, for a program's own words. The caller closes
/// it. Errors: `already_exists` when the port is taken, `not_found` when this host has no such
/// address, `interrupted` as connect_host(), `permission_denied`, `system`.
[[nodiscard]] GANTRY_API Result<int> listen_at(const BridgeAddress& where,
                                               int interrupt_descriptor);

/// Reads the secret of a bridge: the first line of a file that only its owner and root can read. 16
/// to 64 bytes. Errors: `not_found`, `permission_denied` when others can read it,
/// `invalid_argument`.
[[nodiscard]] GANTRY_API Result<std::string> read_bridge_token(const std::string& path);

/// Where a bridge listens, and whom it lets in.
struct BridgeOptions {
  /// ADDRESS[:PORT], an address of this host; "0.0.0.0" is all of them. With tls: in front for
  /// callers that encrypt, and no others. Or unix:/PATH, for processes of this kernel. Must be
  /// given: nothing listens that was not told to.
  std::string listen = {};
  /// Who knows it may use every channel that this process may use. 16 to 64 bytes.
  std::string token = {};
  std::string directory = {};  ///< Where the channels are; by the rule of channel_directory().
  unsigned sessions = 256;     ///< Ends of other hosts at a time; each takes a thread.
  std::chrono::milliseconds stall_limit{10'000};  ///< As in RemoteOptions.
  std::chrono::milliseconds patience{5'000};      ///< As in RemoteOptions.
  /// serve() returns when this descriptor is readable. Not owned.
  int interrupt_descriptor = -1;
  /// Told what happens, one line each, by any of the bridge's threads.
  std::function<void(const std::string& line)> on_event = {};
};

/// A gateway: listens, lets in who proves to know the token, and connects each end of
/// another host to a channel of this one, as an end of its own. Payload goes straight from the
/// sender's memory to the socket, and from the socket into the receiver's; or by another path: see
/// RemotePath. Unless it listens at tls:ADDRESS nothing is encrypted: whoever can read or change
/// what travels between the hosts can do so here, too.
class GANTRY_API Bridge {
 public:
  /// Listens. Errors: `invalid_argument`, `already_exists` when the port is taken, `not_found` when
  /// this host has no such address, `permission_denied`, `unsupported` without libsodium, or
  /// without OpenSSL where it is to encrypt.
  [[nodiscard]] static Result<Bridge> open(const BridgeOptions& options,
                                           std::shared_ptr<Engine> engine);
  Bridge(Bridge&&) noexcept;
  Bridge& operator=(Bridge&&) noexcept;
  ~Bridge();  ///< Ends every session.

  [[nodiscard]] std::string address()
      const;  ///< "127.0.0.1:4744", with the port in use; "tls:..."; "unix:/path".
  /// Serves until the interrupt descriptor is readable. Errors: `system`.
  [[nodiscard]] Result<void> serve();

  class Impl;

 private:
  explicit Bridge(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

/// Which channel is mirrored, and by which bridge.
struct MirrorOptions {
  /// NAME@HOST[:PORT]: the channel there.
  std::string name = {};
  /// The consumer there: its policy, its depth, how its bridge is reached.
  ConsumerOptions there = {};
  /// The producer here, which has the name NAME. Set `consumers` for several readers.
  ProducerOptions here = {};
  /// serve() returns when this descriptor is readable. Not owned.
  int interrupt_descriptor = -1;
  /// serve() returns at the end of the first stream.
  bool is_for_one_stream = false;
  /// Told what happens, one line each, by the thread that is in serve().
  std::function<void(const std::string& line)> on_event = {};
};

/// A channel of another host under its name here: each message crosses the network once, however
/// many consumers of this host read it, and is read where it landed. Consumers join it as any
/// channel of this host, with policies of their own; a consumer that blocks holds up the producer
/// there. The stream's end reaches them as it was told: `closed`, or `peer_gone` when the producer
/// there, its bridge or the network is gone. Then a mirror waits for the next producer there, and
/// consumers rejoin() as those of any channel. Messages are numbered anew here.
class GANTRY_API Mirror {
 public:
  /// Takes the name here. Errors: `invalid_argument` for a name that is of no other host and for
  /// options, `already_exists` when a live process has the name here.
  [[nodiscard]] static Result<Mirror> open(const MirrorOptions& options,
                                           std::shared_ptr<Engine> engine);
  Mirror(Mirror&&) noexcept;
  Mirror& operator=(Mirror&&) noexcept;
  ~Mirror();  ///< Consumers hear `peer_gone`, unless the stream has ended.

  /// Serves until the interrupt descriptor is readable, or the first stream ends if there is to be
  /// one; a bridge that was reached once is called again and again. Errors: those of a consumer
  /// there; what ended that one stream but its regular end; `already_exists` when another process
  /// took the name here between two streams.
  [[nodiscard]] Result<void> serve();

  class Impl;

 private:
  explicit Mirror(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

/// As list_channels(), of another host: asks the bridge at HOST[:PORT]. Errors: as those of an end
/// there; `interrupted` when `interrupt` (-1: none) is readable.
[[nodiscard]] GANTRY_API Result<std::vector<ChannelStatus>> list_remote_channels(
    std::string_view host, const RemoteOptions& options, Deadline deadline, int interrupt = -1);

}  // namespace gantry
