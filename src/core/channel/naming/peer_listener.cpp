#include "core/channel/naming/peer_listener.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "core/channel/naming/access.hpp"

namespace gantry {
namespace {

constexpr std::chrono::seconds kHandshakeTime{5};
constexpr std::chrono::milliseconds kTimeWhileFull{100};
constexpr std::chrono::milliseconds kPause{100};
constexpr unsigned kTriesWithout = 5;  // each after a pause; then callers are told
constexpr int kMostAtOnce = 64;        // callers, before others are served

// A token is a serial, and which of its two descriptors is meant.
constexpr std::uint64_t kListenerToken = 0;
constexpr std::uint64_t token_of(std::uint64_t serial, bool is_second) {
  return serial << 1 | (is_second ? 1u : 0u);
}

}  // namespace

Result<void> PeerListener::start() {
  GANTRY_TRY(acceptor_->add(*this));
  acceptor_->rouse(*this);  // it listens from there on, and notices late callers
  return {};
}

void PeerListener::stop() noexcept {
  acceptor_->remove(*this);
  listening_.end();
  peers_.clear();
  if (handed_) handed_->retire();
}

void PeerListener::ready(std::uint64_t token) {
  if (token == kListenerToken) {
    accept_callers();
  } else {
    const std::uint64_t serial = token >> 1;
    const bool is_second = (token & 1) != 0;
    const bool is_caller = std::any_of(peers_.begin(), peers_.end(), [serial](const auto& peer) {
      return peer->serial == serial;
    });
    if (is_caller && !is_second)
      hear_from(serial);
    else
      other_ready(serial, is_second);
  }
  set_time();
}

void PeerListener::roused() {
  other_roused();
  set_time();
}

// ---- coming --------------------------------------------------------------------------------

Result<AcceptWatch> PeerListener::watch(int descriptor, std::uint64_t serial, bool is_second,
                                        Acceptor::Tell tell) {
  return acceptor_->watch(*this, descriptor, token_of(serial, is_second), tell);
}

Result<void> PeerListener::add(std::unique_ptr<Peer> peer, Connection connection,
                               const PeerIdentity& identity, std::chrono::nanoseconds time) {
  peer->serial = next_serial();
  peer->connection = std::move(connection);
  peer->identity = identity;
  peer->until = Deadline::after(time);
  peer->while_full = Deadline::after(kTimeWhileFull);
  GANTRY_ASSIGN(auto watched,
                watch(peer->connection.receive_fd(), peer->serial, false, Acceptor::Tell::always));
  peer->connection.watch_with(std::move(watched));
  peers_.push_back(std::move(peer));
  return {};
}

void PeerListener::accept_callers() {
  for (int accepted = 0; accepted < kMostAtOnce; ++accepted) {
    if (peers_.size() > kPlaces) return pause(peers_.front()->while_full, kPlaces);
    Fd socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      const int error = errno;
      if (error == EAGAIN || error == ECONNABORTED) return;
      const bool is_short = error == EMFILE || error == ENFILE;
      if (is_short && tries_without_ >= kTriesWithout && turn_one_away()) continue;
      // The caller stays in the queue and would wake us at once again.
      if (is_short) ++tries_without_;
      return pause(Deadline::after(kPause));
    }
    tries_without_ = 0;
    static_cast<void>(take_in(std::move(socket)));
  }
}

// A caller that nobody can let in must not take us for one that does not answer. False: there is no
// caller, or no descriptor even for this.
bool PeerListener::turn_one_away() {
  bool is_told = false;
  acceptor_->with_spare([&] {
    const Fd socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    is_told = static_cast<bool>(socket);
    if (is_told) refuse(socket.get(), Code::system);
  });
  return is_told;
}

// I1. Hangs up on a caller that cannot be identified, watched or kept.
Result<void> PeerListener::take_in(Fd socket) {
  Connection connection(std::move(socket));
  GANTRY_ASSIGN(const PeerIdentity identity, peer_of(connection.receive_fd()));
  if (!admit_peer(connection.receive_fd(), access_)) {
    refuse(connection.send_fd(), Code::permission_denied);
    return {};
  }
  accept_rights(connection.receive_fd(), false);  // I3; inherited, except who made the listener
  const bool has_room = peers_.size() < kPlaces || make_room_for(identity.uid);
  GANTRY_TRY(add(make_peer(), std::move(connection), identity, kHandshakeTime));
  accepted();
  if (!has_room) pause(peers_.front()->while_full, kPlaces);
  return {};
}

uid_t PeerListener::heaviest_user_with(uid_t newcomer) const {
  std::map<uid_t, std::size_t> places;
  for (const auto& peer : peers_) ++places[peer->identity.uid];
  ++places[newcomer];
  return std::max_element(places.begin(), places.end(),
                          [newcomer](const auto& a, const auto& b) {
                            return std::pair(a.second, a.first == newcomer) <
                                   std::pair(b.second, b.first == newcomer);
                          })
      ->first;
}

// I2. False: all places are this user's callers, and none is late. A caller that came just now may
//     have spoken without having been heard yet, so among one user's callers only late ones go.
bool PeerListener::make_room_for(uid_t user) {
  const uid_t heaviest = heaviest_user_with(user);
  const auto may_go = [&](const auto& peer) {
    return peer->identity.uid == heaviest && !peer->is_called &&
           (heaviest != user || peer->while_full.passed());
  };
  auto victim = std::find_if(peers_.begin(), peers_.end(),
                             [&](const auto& peer) { return may_go(peer) && !peer->has_spoken; });
  if (victim == peers_.end()) victim = std::find_if(peers_.begin(), peers_.end(), may_go);
  if (victim == peers_.end()) return false;
  peers_.erase(victim);
  return true;
}

// ---- waiting -------------------------------------------------------------------------------

void PeerListener::pause(Deadline until, std::size_t fewer) noexcept {
  listening_.end();
  paused_until_ = until;
  paused_until_fewer_ = fewer;
}

// If the listener cannot be watched either, this is tried again after a pause.
void PeerListener::listen_on() {
  if (listener_ < 0 || listening_) return;
  if (!paused_until_.passed() && peers_.size() >= paused_until_fewer_) return;
  auto listening = acceptor_->watch(*this, listener_, kListenerToken);
  if (!listening) return pause(Deadline::after(kPause));
  listening_ = std::move(*listening);
}

// Late callers go before anybody is listened for: with all places taken the pause would end at
// once, again and again.
void PeerListener::set_time() {
  drop_late();
  listen_on();
  Deadline next = listening_ || listener_ < 0 ? Deadline::never() : paused_until_;
  for (const auto& peer : peers_)
    if (peer->until.left() < next.left()) next = peer->until;
  if (next_look().left() < next.left()) next = next_look();
  acceptor_->wake_at(*this, next);
}

void PeerListener::drop_late() {
  const bool full = peers_.size() > kPlaces;
  std::erase_if(peers_, [&](const auto& peer) {
    if (!peer->until.passed() && !(full && !peer->is_called && peer->while_full.passed()))
      return false;
    failed(*peer, {Code::timed_out, "the other process does not answer",
                   "it is stopped or has no time: let it go on (kill -CONT), or end it"});
    return true;
  });
}

// Whatever goes wrong with a caller costs only its own place.
void PeerListener::hear_from(std::uint64_t serial) {
  const auto at = std::find_if(peers_.begin(), peers_.end(),
                               [serial](const auto& peer) { return peer->serial == serial; });
  Peer& peer = **at;
  auto received = receive_wire(peer.connection.receive_fd(), Deadline::now());
  if (!received && received.error().code == Code::timed_out) return;  // nothing is there
  const bool is_first = !std::exchange(peer.has_spoken, true);
  if (is_first && received && received->packet.kind == PacketKind::hello &&
      received->packet.purpose == Purpose::hand && !peer.is_called) {
    hand_on(peer, received->packet);
    peers_.erase(at);
    return;
  }
  if (received && !received->closed) {
    if (!hear(peer, *received)) peers_.erase(at);
    return;
  }
  // Of another format: from the answer's version it learns that it was refused, and why.
  if (is_first && !received && received.error().code == Code::unsupported && !peer.is_called)
    refuse(peer.connection.send_fd(), Code::unsupported);
  failed(peer,
         received ? Error{Code::peer_gone, "the other process hung up", ""} : received.error());
  peers_.erase(at);
}

// A bridge: from here on the component net listens to it, on a thread of its own.
void PeerListener::hand_on(Peer& peer, const WirePacket& hello) {
  const int socket = peer.connection.send_fd();
  const bool is_own = peer.identity.uid == ::geteuid() || peer.identity.uid == 0;
  if (!is_own || !is_same_token(access_, hello.token))
    return refuse(socket, Code::permission_denied);
  if (!handed_) {
    const auto make = handed_callers_maker();
    if (make == nullptr) return refuse(socket, Code::unsupported);
    handed_ = make(where());
    if (!handed_) return refuse(socket, Code::system);
    handed_now_.store(handed_.get(), std::memory_order_release);  // [H]
  }
  handed_->take(peer.connection.take());
}

}  // namespace gantry
