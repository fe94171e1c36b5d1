#include "net/remote/admission.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <gantry/channel.hpp>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"

namespace gantry {
namespace {

constexpr const char* kProvider = "tcp";

bool is_of(int socket, sa_family_t family) noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.ss_family == family;
}

Result<void> check_path(RemotePath path, BridgeConnection connection) {
  const int socket = connection.socket;
  if (path != RemotePath::stream && connection.is_encrypted)
    return fail(Code::unsupported, "payload would travel beside what is encrypted",
                "take the path stream; or leave out tls: at both ends");
  if (path == RemotePath::shared && !is_of(socket, AF_UNIX))
    return fail(Code::unsupported, "the connection is no Unix socket, so memory cannot be shared",
                "have the bridge listen at unix:/PATH in a folder that both ends see; or take the "
                "path stream");
  if (path != RemotePath::fabric) return {};
  if (!is_of(socket, AF_INET))
    return fail(Code::unsupported, "libfabric needs a connection of IPv4",
                "name the host by its address of IPv4; or take the path stream");
  return try_fabric();
}

Result<void> check_named(RemotePath path, BridgeConnection connection) {
  auto able = check_path(path, connection);
  if (able) return able;
  return prefixed(std::move(able).error(), "path {}", to_string(path));
}

constexpr std::uint32_t kMagic = 0x39'52'42'47;          // "GBR9": the version is part of it
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

// parse_bridge_address() has seen to it that the path fits.
sockaddr_un address_of(const std::string& path) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), kLongestSocketPath));
  return address;
}

Result<Fd> make_socket() {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("socket");
  return socket;
}

// Not blocking: a bridge whose queue is full answers EAGAIN.
bool connects(const Fd& socket, const std::string& path) noexcept {
  const sockaddr_un address = address_of(path);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// So that of two bridges that find a file nobody listens at one alone replaces it.
Result<Fd> lock_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  Fd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) return fail_errno(folder);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Code::busy, folder + ": somebody makes a socket there", "try again");
  return lock;
}

Result<void> remove_stale(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) return {};
  GANTRY_ASSIGN(const Fd socket, make_socket());
  const bool is_socket = S_ISSOCK(facts.st_mode);
  if (!is_socket || connects(socket, path) || errno != ECONNREFUSED)
    return fail(
        Code::already_exists,
        fmt::format("unix:{}: {}", path, is_socket ? "somebody listens there" : "no socket"),
        "choose another path, or end that process");
  if (::unlink(path.c_str()) != 0) return fail_errno(path);
  return {};
}

}  // namespace

Result<RemotePaths> paths_to_offer(RemotePath wanted, BridgeConnection connection) {
  if (wanted != RemotePath::automatic)
    return check_named(wanted, connection).map([wanted] { return bit_of(wanted); });
  RemotePaths offered = bit_of(RemotePath::stream);
  if (check_path(RemotePath::shared, connection)) offered |= bit_of(RemotePath::shared);
  return offered;
}

void answer_path(RemotePaths offered, BridgeConnection connection, RemoteAnswer& answer) {
  for (const RemotePath path : {RemotePath::shared, RemotePath::fabric, RemotePath::stream}) {
    if ((offered & bit_of(path)) == 0) continue;
    auto able = check_named(path, connection);
    answer.path = path;
    if (able) return answer.refusal.reset();
    answer.refusal = std::move(able).error();
  }
}

// Over a connection that leads nowhere: what it needs is looked for all the same.
Result<void> try_fabric() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail_errno("socketpair");
  const Fd far(ends[1]);
  return make_fabric_link(ends[0], kProvider).map([](const auto&) {});
}

std::string path_text(RemotePath wanted, RemotePath taken, bool is_encrypted,
                      std::string_view served) {
  std::string_view why = "it was asked for";
  if (wanted == RemotePath::automatic && taken == RemotePath::shared)
    why = "both ends are on one kernel";
  else if (wanted == RemotePath::automatic)
    why = "the hosts are joined by a network, and fabric is taken when it is asked for";
  if (is_encrypted) why = "encrypted (TLS 1.3), so that payload goes down the connection";
  return fmt::format("{}: {}{}{}", to_string(taken), why, served.empty() ? "" : "; ", served);
}

Result<std::unique_ptr<Link>> link_over(RemotePath path, Fd socket, std::shared_ptr<Engine> engine,
                                        LinkOptions options) {
  const std::string peer = options.peer;
  options.falls_back = false;
  const int number = socket.release();
  auto link = path == RemotePath::shared   ? make_shared_link(number, std::move(engine), options)
              : path == RemotePath::fabric ? make_fabric_link(number, kProvider, options)
                                           : make_stream_link(number, options);
  if (!link && link.error().code == Code::invalid_argument)  // it is not connected any more
    return fail(Code::peer_gone, fmt::format("link to {}: it closed the connection", peer));
  return link;
}

Result<void> await_path(RemotePath path, Link& link, int interrupt, Deadline deadline) {
  while (path == RemotePath::fabric && !link.capabilities().pulls) {
    GANTRY_TRY(link.state());
    if (is_readable(interrupt)) return fail(Code::interrupted, "interrupted");
    if (deadline.passed())
      return fail(Code::unsupported, "path fabric: libfabric's connection does not come to stand",
                  "a firewall may be in its way; the path stream needs no second connection");
    if (!link.poll()) sleep_on({link.descriptor(), interrupt}, kRemoteRest);
  }
  return {};
}

std::string_view verb_of(RemoteRole role) noexcept {
  constexpr std::array<std::string_view, 6> kVerbs{"",          "consumes", "delivers to",
                                                   "publishes", "looks at", "calls"};
  GANTRY_ASSERT(static_cast<std::size_t>(role) < kVerbs.size());
  return kVerbs[static_cast<std::size_t>(role)];
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
    out.text(served, kLongestServed);
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
    answer.served = in.text(kLongestServed);
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

Result<Fd> connect_bridge(const HostPort& where, std::string_view token,
                          const std::shared_ptr<DetachedThreads>& carriers, int interrupt,
                          Deadline deadline) {
  if (where.is_encrypted) {
    GANTRY_TRY(check_tls());
    GANTRY_ASSIGN(Fd socket, connect_tcp(where, interrupt, deadline));
    auto session = TlsSession::as_caller(socket.get(), token, interrupt, deadline);
    if (session) return std::move(*session).carry(std::move(socket), carriers);
    return prefixed(std::move(session).error(), "{}", where.text());
  }
  if (where.path.empty()) return connect_tcp(where, interrupt, deadline);
  GANTRY_ASSIGN(Fd socket, make_socket());
  if (connects(socket, where.path)) return socket;
  if (errno == ENOENT || errno == ECONNREFUSED)
    return fail(Code::not_found, where.text() + ": nobody listens there",
                fmt::format("start a bridge there: gantry bridge --listen {} --token-file FILE",
                            where.text()));
  if (errno == EAGAIN) return fail(Code::timed_out, where.text() + ": too many are waiting");
  return fail_errno(where.text());
}

Result<BridgeListener> BridgeListener::open(const HostPort& where, int interrupt) {
  BridgeListener listener;
  if (where.is_encrypted) GANTRY_TRY(check_tls());
  listener.is_encrypted_ = where.is_encrypted;
  if (where.path.empty()) {
    GANTRY_ASSIGN(listener.socket_, listen_tcp(where, interrupt));
    return listener;
  }
  GANTRY_ASSIGN(const Fd lock, lock_folder_of(where.path));
  GANTRY_TRY(remove_stale(where.path));
  GANTRY_ASSIGN(listener.socket_, make_socket());
  listener.path_ = where.path;
  GANTRY_TRY(listener.listen_at_path());
  return listener;
}

Result<void> BridgeListener::listen_at_path() {
  const sockaddr_un address = address_of(path_);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno("listening at unix:" + path_);
  if (::lstat(path_.c_str(), &file_) != 0) return fail_errno(path_);
  if (::listen(socket_.get(), SOMAXCONN) != 0) return fail_errno("listen");
  return {};
}

// Another bridge may have the path by now.
BridgeListener::~BridgeListener() {
  struct stat facts{};
  if (!path_.empty() && ::lstat(path_.c_str(), &facts) == 0 && facts.st_dev == file_.st_dev &&
      facts.st_ino == file_.st_ino)
    ::unlink(path_.c_str());
}

}  // namespace gantry
