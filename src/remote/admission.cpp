#include "remote/admission.hpp"

#include <algorithm>
#include <gantry/channel.hpp>

#include "base/result.hpp"
#include "remote/tcp.hpp"

namespace gantry {
namespace {

constexpr std::uint32_t kMagic = 0x38'52'42'47;          // "GBR8": the version is part of it
constexpr std::uint32_t kEncryptsMagic = 0x53'4c'54'47;  // "GTLS"
constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kSizeBytes = 4;
constexpr std::string_view kCaller = "gantry caller";
constexpr std::string_view kBridge = "gantry bridge";
constexpr std::size_t kLongestName = 64;

// What stands where the size of the answer would.
constexpr std::uint64_t kWrongToken = 0xffff'ffff;

tl::unexpected<Error> no_bridge() {
  return fail(Code::peer_misbehaved, "who listens there is no bridge of this version of Gantry",
              "check host and port; use the same version at both ends");
}

Error told_by(const Error& error, std::string_view who) {
  return {error.code, fmt::format("{}: {}", who, error.message), error.hint};
}

}  // namespace

std::string_view verb_of(RemoteRole role) noexcept {
  switch (role) {
    case RemoteRole::consume:
      return "consumes";
    case RemoteRole::deliver:
      return "delivers to";
    case RemoteRole::look:
      return "looks at";
    case RemoteRole::call:
      return "calls";
    case RemoteRole::publish:
      break;
  }
  return "publishes";
}

std::vector<std::byte> RemoteRequest::encode() const {
  WordWriter out;
  out.number(static_cast<std::uint64_t>(role), 1);
  out.bytes(session);
  out.text(channel, kLongestName);
  for (const std::string* text : {&who.host, &who.command, &who.stage})
    out.text(*text, EndName::kMostBytes);
  out.number(who.replica, 4);
  out.number(who.replicas, 4);
  out.number(static_cast<std::uint64_t>(when_slow), 1);
  out.number(depth, 4);
  out.number(slots, 4);
  out.number(consumers, 4);
  out.number(received);
  out.number(paths, 1);
  const auto limit = std::clamp(stall_limit, std::chrono::milliseconds(0), kLongestStallLimit);
  out.number(static_cast<std::uint64_t>(limit.count()), 4);
  return out.take();
}

Result<RemoteRequest> RemoteRequest::decode(ConstByteSpan bytes) {
  WordReader in(bytes);
  RemoteRequest request;
  const auto role = in.number(1, static_cast<std::uint64_t>(RemoteRole::call));
  request.role = static_cast<RemoteRole>(role);
  in.bytes(request.session);
  request.channel = in.text(kLongestName);
  for (std::string* text : {&request.who.host, &request.who.command, &request.who.stage})
    *text = in.text(EndName::kMostBytes);
  request.who.replica = static_cast<unsigned>(in.number(4));
  request.who.replicas = static_cast<unsigned>(in.number(4));
  request.when_slow = static_cast<SlowConsumer>(
      in.number(1, static_cast<std::uint64_t>(SlowConsumer::drop_oldest)));
  request.depth = static_cast<unsigned>(in.number(4, PayloadOptions::kMaxSlots));
  request.slots = static_cast<unsigned>(in.number(4, PayloadOptions::kMaxSlots));
  request.consumers = static_cast<unsigned>(in.number(4, ProducerOptions::kMaxConsumers));
  request.received = in.number();
  request.paths = static_cast<RemotePaths>(in.number(1, kAllPaths));
  request.stall_limit = std::chrono::milliseconds(
      in.number(4, static_cast<std::uint64_t>(kLongestStallLimit.count())));
  const bool offers = request.paths != 0 && (request.paths & ~kAllPaths) == 0;
  const bool is_named = request.role == RemoteRole::look
                            ? request.channel.empty()
                            : check_channel_name(request.channel).has_value();
  if (!in.is_over() || role == 0 || !is_named || !offers)
    return fail(Code::peer_misbehaved, "a request that no end makes");
  return request;
}

std::vector<std::byte> RemoteAnswer::encode() const {
  WordWriter out;
  out.number(refusal ? 1 : 0, 1);
  if (refusal) {
    write_error(out, *refusal);
  } else {
    out.bytes(session);
    out.number(received);
    out.number(static_cast<std::uint64_t>(path), 1);
  }
  return out.take();
}

Result<RemoteAnswer> RemoteAnswer::decode(ConstByteSpan bytes) {
  WordReader in(bytes);
  RemoteAnswer answer;
  if (in.number(1, 1) == 1) {
    answer.refusal = read_error(in);
  } else {
    in.bytes(answer.session);
    answer.received = in.number();
    answer.path = static_cast<RemotePath>(in.number(1, static_cast<std::uint64_t>(kLastPath)));
  }
  if (!in.is_over()) return no_bridge();
  return answer;
}

Result<RemoteAnswer> call_bridge(int socket, std::string_view token, const RemoteRequest& request,
                                 int interrupt, Deadline deadline) {
  std::array<std::byte, kMagicBytes + sizeof(Nonce)> hello{};
  GANTRY_TRY(receive_exactly(socket, hello, interrupt, deadline));
  WordReader in(hello);
  const auto magic = in.number(kMagicBytes);
  if (magic == kEncryptsMagic)
    return fail(Code::peer_misbehaved, "the bridge there encrypts",
                "write tls: in front of its host: NAME@tls:HOST");
  if (magic != kMagic) return no_bridge();
  Nonce bridges;
  in.bytes(bridges);
  const Nonce own = make_nonce();
  const auto asked = request.encode();
  WordWriter out;
  out.number(kMagic, kMagicBytes);
  out.bytes(own);
  out.bytes(prove(token, kCaller, bridges, own, asked));
  out.number(asked.size(), kSizeBytes);
  out.bytes(asked);
  GANTRY_TRY(send_exactly(socket, out.take(), deadline));

  std::array<std::byte, kSizeBytes> size_bytes{};
  GANTRY_TRY(receive_exactly(socket, size_bytes, interrupt, deadline));
  const auto size = load_number(size_bytes.data(), kSizeBytes);
  if (size == kWrongToken)
    return fail(Code::permission_denied, "the bridge does not know this token",
                "use the token that the bridge was started with (--token-file)");
  if (size > RemoteAnswer::kMostBytes) return no_bridge();
  Proof proof;
  std::vector<std::byte> words(static_cast<std::size_t>(size));
  GANTRY_TRY(receive_exactly(socket, proof, interrupt, deadline));
  GANTRY_TRY(receive_exactly(socket, words, interrupt, deadline));
  if (!is_same_proof(proof, prove(token, kBridge, bridges, own, words)))
    return fail(Code::permission_denied, "who answers does not know the token either",
                "check the address: it is not your bridge, or somebody changes what it says");
  GANTRY_ASSIGN(RemoteAnswer answer, RemoteAnswer::decode(words));
  if (answer.refusal) return tl::unexpected(told_by(*answer.refusal, "bridge"));
  if ((request.paths & bit_of(answer.path)) == 0) return no_bridge();
  return answer;
}

void say_encrypts(int socket) {
  WordWriter hello;
  hello.number(kEncryptsMagic, kMagicBytes);
  hello.bytes(Nonce{});
  static_cast<void>(send_exactly(socket, hello.take(), Deadline::now()));
}

Result<RemoteRequest> Admission::hear(Deadline deadline) {
  own_ = make_nonce();
  WordWriter hello;
  hello.number(kMagic, kMagicBytes);
  hello.bytes(own_);
  GANTRY_TRY(send_exactly(socket_, hello.take(), deadline));
  std::array<std::byte, kMagicBytes + sizeof(Nonce) + sizeof(Proof) + kSizeBytes> head{};
  GANTRY_TRY(receive_exactly(socket_, head, -1, deadline));
  WordReader in(head);
  Proof proof;
  const bool speaks = in.number(kMagicBytes) == kMagic;
  in.bytes(callers_);
  in.bytes(proof);
  const auto size = in.number(kSizeBytes);
  const bool encrypts = head[0] == std::byte{0x16} && head[1] == std::byte{0x03};  // RFC 8446, 5.1
  if (encrypts)
    return fail(Code::peer_misbehaved,
                "a caller that encrypts (tls:HOST), which this bridge does not");
  if (!speaks || size > RemoteRequest::kMostBytes)
    return fail(Code::peer_misbehaved, "a caller that speaks another protocol or version");
  std::vector<std::byte> asked(static_cast<std::size_t>(size));
  GANTRY_TRY(receive_exactly(socket_, asked, -1, deadline));
  if (is_same_proof(proof, prove(token_, kCaller, own_, callers_, asked)))
    return RemoteRequest::decode(asked);
  WordWriter out;
  out.number(kWrongToken, kSizeBytes);
  static_cast<void>(send_exactly(socket_, out.take(), deadline));
  return fail(Code::permission_denied, "a caller with another token");
}

Result<void> Admission::answer(const RemoteAnswer& answer, Deadline deadline) {
  const auto words = answer.encode();
  WordWriter out;
  out.number(words.size(), kSizeBytes);
  out.bytes(prove(token_, kBridge, own_, callers_, words));
  out.bytes(words);
  return send_exactly(socket_, out.take(), deadline);
}

void answer_path(RemotePaths offered, BridgeConnection connection, RemoteAnswer& answer) {
  const auto taken = take_path(offered, connection);
  if (taken)
    answer.path = *taken;
  else
    answer.refusal = taken.error();
}

}  // namespace gantry
