#include "stage/zmq/zmq_link.hpp"

#if __has_include(<zmq.h>)
#include <dlfcn.h>
#include <zmq.h>

#include <algorithm>
#include <cstring>

#include "base/socket.hpp"
#include "stage/stage_link.hpp"

namespace gantry {
namespace {

constexpr const char* kLibrary = "libzmq.so.5";

// What is used of libzmq; X(name) for zmq_name.
// clang-format off: it lays this list out anew at every run
#define GANTRY_ZMQ_FUNCTIONS(X) \
  X(ctx_new) X(ctx_term) X(socket) X(close) X(bind) X(connect) X(setsockopt) X(socket_monitor) \
  X(poll) X(recv) X(send) X(msg_init) X(msg_init_data) X(msg_send) X(msg_recv) X(msg_close) \
  X(msg_data) X(msg_size) X(msg_more) X(strerror)
// clang-format on

struct Api {
#define GANTRY_ZMQ_MEMBER(name) decltype(&::zmq_##name) name = nullptr;
  GANTRY_ZMQ_FUNCTIONS(GANTRY_ZMQ_MEMBER)
  std::string missing;  ///< Why the library cannot be used; empty when it can.
};

template <class Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) missing = fmt::format("{} has no {}", kLibrary, name);
}

Api load() {
  Api api;
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    api.missing = fmt::format("{} cannot be opened", kLibrary);
    return api;
  }
#define GANTRY_ZMQ_FIND(name) find(library, "zmq_" #name, api.name, api.missing);
  GANTRY_ZMQ_FUNCTIONS(GANTRY_ZMQ_FIND)
  return api;
}

// Code of a library stays loaded, so this is a constant, not state.
const Api& zmq() {
  static const Api api = load();
  return api;
}

tl::unexpected<Error> fail_zmq(std::string_view what) {
  return fail(Code::system, fmt::format("{}: {}", what, zmq().strerror(errno)));
}

zmq_msg_t* raw(ZmqInbox::Part& part) {
  static_assert(sizeof(zmq_msg_t) == sizeof part.raw);
  return reinterpret_cast<zmq_msg_t*>(part.raw.data());
}

template <class Value>
void set(void* socket, int option, Value value) {
  zmq().setsockopt(socket, option, &value, sizeof value);
}

}  // namespace

Result<void> zmq_usable() {
  if (zmq().missing.empty()) return {};
  return fail(Code::unsupported, "transport zmq: " + zmq().missing, "apt install libzmq5");
}

// ---- context -------------------------------------------------------------------------------

Result<std::shared_ptr<ZmqContext>> ZmqContext::create() {
  GANTRY_TRY(zmq_usable());
  void* const handle = zmq().ctx_new();
  if (handle == nullptr) return fail_zmq("zmq context");
  return std::make_shared<ZmqContext>(handle);
}

ZmqContext::~ZmqContext() {
  while (zmq().ctx_term(handle_) != 0 && errno == EINTR) {
  }
}

// ---- inbox ---------------------------------------------------------------------------------

ZmqInbox::~ZmqInbox() {
  for (auto& part : parts_) zmq().msg_close(raw(part));
}

ZmqInbox::Part& ZmqInbox::add() {
  const std::scoped_lock lock(mutex_);
  Part& part = parts_.emplace_back();
  zmq().msg_init(raw(part));
  return part;
}

std::uint64_t ZmqInbox::token_of(const Part& part) noexcept {
  return reinterpret_cast<std::uintptr_t>(&part);
}

void ZmqInbox::give_back(std::uint64_t token) noexcept {
  const std::scoped_lock lock(mutex_);
  parts_.remove_if([&](Part& part) {
    const bool found = token_of(part) == token;
    if (found) zmq().msg_close(raw(part));
    return found;
  });
}

// ---- link ----------------------------------------------------------------------------------

Result<ZmqLink> ZmqLink::open(std::shared_ptr<ZmqContext> context, int type) {
  void* const socket = zmq().socket(context->handle(), type);
  if (socket == nullptr) return fail_zmq("zmq socket");
  ZmqLink link(std::move(context), socket);
  set(socket, ZMQ_LINGER, 0);  // close() of the stage's end waits for delivery; this does not
  GANTRY_TRY(link.watch());
  return link;
}

Result<void> ZmqLink::watch() {
  const std::string url = fmt::format("inproc://monitor-{}", context_->next_number());
  if (zmq().socket_monitor(socket_, url.c_str(),
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) != 0)
    return fail_zmq("zmq monitor");
  monitor_ = zmq().socket(context_->handle(), ZMQ_PAIR);
  if (monitor_ == nullptr) return fail_zmq("zmq monitor");
  set(monitor_, ZMQ_LINGER, 0);
  if (zmq().connect(monitor_, url.c_str()) != 0) return fail_zmq("zmq monitor");
  return {};
}

Result<ZmqLink> ZmqLink::bind_push(std::shared_ptr<ZmqContext> context, const std::string& url,
                                   unsigned slots) {
  GANTRY_ASSIGN(ZmqLink link, open(std::move(context), ZMQ_PUSH));
  set(link.socket_, ZMQ_SNDHWM, static_cast<int>(slots));
  if (zmq().bind(link.socket_, url.c_str()) != 0) return fail_zmq(fmt::format("zmq bind {}", url));
  return link;
}

Result<ZmqLink> ZmqLink::connect_pull(std::shared_ptr<ZmqContext> context, const std::string& url,
                                      Bytes largest_bytes) {
  constexpr int kRetryMs = 5;  // the sender may bind later than this connects
  GANTRY_ASSIGN(ZmqLink link, open(std::move(context), ZMQ_PULL));
  set(link.socket_, ZMQ_RCVHWM, 1);
  set(link.socket_, ZMQ_RECONNECT_IVL, kRetryMs);
  set(link.socket_, ZMQ_MAXMSGSIZE, static_cast<std::int64_t>(largest_bytes));
  if (zmq().connect(link.socket_, url.c_str()) != 0)
    return fail_zmq(fmt::format("zmq connect {}", url));
  return link;
}

ZmqLink::ZmqLink(ZmqLink&& other) noexcept
    : context_(std::move(other.context_)),
      socket_(std::exchange(other.socket_, nullptr)),
      monitor_(std::exchange(other.monitor_, nullptr)),
      peer_(other.peer_) {}

void ZmqLink::close() noexcept {
  if (monitor_ != nullptr) zmq().close(std::exchange(monitor_, nullptr));
  if (socket_ != nullptr) zmq().close(std::exchange(socket_, nullptr));
}

Result<bool> ZmqLink::send(const FrameHeader& header, const std::shared_ptr<BufferStore>& store,
                           const BufferStore::Taken& payload) {
  if (zmq().send(socket_, &header, sizeof header, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
    if (errno == EAGAIN) return false;
    return fail_zmq("zmq send");
  }
  struct Owner {
    std::shared_ptr<BufferStore> store;
    std::uint64_t token;
    static void give_back(void*, void* hint) {
      const std::unique_ptr<Owner> owner(static_cast<Owner*>(hint));
      owner->store->give_back(owner->token);
    }
  };
  auto owner = std::make_unique<Owner>(store, payload.token);
  zmq_msg_t message;
  zmq().msg_init_data(&message, payload.bytes.data(), payload.bytes.size(), &Owner::give_back,
                      owner.release());
  // The first part had credit, so this one has; else the peer left and both are dropped.
  if (zmq().msg_send(&message, socket_, ZMQ_DONTWAIT) < 0) zmq().msg_close(&message);
  return true;
}

Result<bool> ZmqLink::send_end() {
  FrameHeader header;
  header.kind = FrameHeader::Kind::end;
  if (zmq().send(socket_, &header, sizeof header, ZMQ_DONTWAIT) >= 0) return true;
  if (errno == EAGAIN) return false;
  return fail_zmq("zmq send");
}

Result<std::optional<ZmqLink::Received>> ZmqLink::receive(ZmqInbox& inbox) {
  Received received;
  const int got = zmq().recv(socket_, &received.header, sizeof received.header, ZMQ_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got < 0) return fail_zmq("zmq receive");
  peer_ = Peer::here;
  const auto misbehaved = [] { return fail(Code::peer_misbehaved, "what came is not a message"); };
  if (got != sizeof received.header || !received.header.valid()) return misbehaved();
  if (received.header.kind == FrameHeader::Kind::end) return received;

  ZmqInbox::Part& part = inbox.add();
  received.part = &part;
  const int size = zmq().msg_recv(raw(part), socket_, ZMQ_DONTWAIT);
  const Bytes bytes = zmq().msg_size(raw(part));  // `size` is an int and wraps at 2 GiB
  if ((size < 0 && bytes == 0) || bytes != received.header.length ||
      zmq().msg_more(raw(part)) != 0) {
    inbox.give_back(ZmqInbox::token_of(part));
    return misbehaved();
  }
  received.bytes = {static_cast<const std::byte*>(zmq().msg_data(raw(part))), bytes};
  return received;
}

// An event is two parts: its number and value (6 bytes), and an address that says nothing new.
ZmqLink::Peer ZmqLink::peer() {
  std::array<std::byte, 6> event{};
  std::array<char, 1> address{};
  while (monitor_ != nullptr && peer_ != Peer::left &&
         zmq().recv(monitor_, event.data(), event.size(), ZMQ_DONTWAIT) >= 0) {
    std::uint16_t number = 0;
    std::memcpy(&number, event.data(), sizeof number);
    zmq().recv(monitor_, address.data(), address.size(), ZMQ_DONTWAIT);
    peer_ = number == ZMQ_EVENT_DISCONNECTED ? Peer::left : Peer::here;
  }
  return peer_;
}

Result<void> ZmqLink::wait(std::span<ZmqLink* const> links, For what, int interrupt,
                           Deadline deadline) {
  std::vector<zmq_pollitem_t> items{{nullptr, interrupt, ZMQ_POLLIN, 0}};
  const auto ready = static_cast<short>(what == For::credit ? ZMQ_POLLOUT : ZMQ_POLLIN);
  for (const ZmqLink* link : links) {
    if (link->socket_ == nullptr) continue;
    if (what != For::departure) items.push_back({link->socket_, 0, ready, 0});
    if (link->peer_ != Peer::left) items.push_back({link->monitor_, 0, ZMQ_POLLIN, 0});
  }
  const auto polled = std::span(items).subspan(interrupt < 0 ? 1 : 0);
  const int count =
      zmq().poll(polled.data(), static_cast<int>(polled.size()), poll_timeout_ms(deadline));
  if (count < 0 && errno != EINTR) return fail_zmq("zmq poll");
  if (items.front().revents != 0) return fail(Code::interrupted, "zmq: interrupted");
  if (count <= 0 && deadline.passed()) return fail(Code::timed_out, "zmq: the time is up");
  return {};
}

}  // namespace gantry
#endif
