#pragma once  // remote/admission.hpp: how a bridge and its caller convince each other.

#include <gantry/channel/options.hpp>

#include "remote/path.hpp"
#include "remote/token.hpp"
#include "remote/words.hpp"

namespace gantry {

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

/// "consumes", "calls".
[[nodiscard]] std::string_view verb_of(RemoteRole role) noexcept;

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

}  // namespace gantry
