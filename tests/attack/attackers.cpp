#include "attack/attackers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <gantry/call.hpp>
#include <random>
#include <thread>

#include "attack/strangers.hpp"
#include "core/channel/test_raw_consumer.hpp"
#include "core/channel/test_raw_producer.hpp"

namespace gantry::attack {
namespace {

std::atomic<unsigned>* blows_here = nullptr;  // attacks are plain functions

Deadline a_while() {
  return Deadline::after(std::chrono::seconds(2));
}

// ---- an admitted reader --------------------------------------------------------------------

struct Joined {
  Fd socket;
  Fd wake_sender;  // wakes the producer
  Region page;
  WakeReceiver::Made wake_receiver;
};

/// With a policy by which it holds nobody up. Nothing when it is refused.
std::optional<Joined> join(const std::string& directory) {
  auto socket = connect_to(directory, "frames.sock");
  if (!socket || !send_hello(socket->get(), Purpose::join)) return std::nullopt;
  auto welcome = receive_wire(socket->get(), a_while());
  if (!welcome || welcome->packet.kind != PacketKind::welcome || welcome->fds.size() != 3)
    return std::nullopt;
  auto page = Region::create(shared_size(sizeof(ConsumerPage)), "x");
  auto wake_receiver = WakeReceiver::make();
  auto metrics = MetricsMaker::make_own();
  if (!page || !wake_receiver || !metrics) return std::nullopt;
  test::make_consumer_page(*page);
  WirePacket packet;
  packet.kind = PacketKind::join;
  packet.held = static_cast<std::uint32_t>(SlowConsumer::drop_newest);
  packet.slots = 1;
  const std::array<int, 3> fds{page->descriptor(), wake_receiver->wake_sender.descriptor(),
                               metrics->descriptor()};
  if (!send_wire(socket->get(), packet, fds)) return std::nullopt;
  for (;;) {
    auto answer = receive_wire(socket->get(), a_while());
    if (!answer || answer->closed) return std::nullopt;
    if (answer->packet.kind == PacketKind::ready) break;
  }
  note_blow();
  return Joined{std::move(*socket), std::move(welcome->fds[2]), std::move(*page),
                std::move(*wake_receiver)};
}
Joined join_at_last(const std::string& directory) {
  for (;;) {
    if (auto joined = join(directory)) return std::move(*joined);
    ::poll(nullptr, 0, 1);
  }
}
bool is_hung_up(const Fd& socket) {
  pollfd entry{socket.get(), 0, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR)) != 0;
}

void never_release(const std::string& directory) {
  const Joined joined = join_at_last(directory);
  for (;;) ::pause();
}

/// Until it is hung up on. Threads: one alone is drained as quickly as it rings.
void flood(const Fd& socket, const Fd& wake_sender) {
  const std::array<char, 4096> bytes{};
  std::vector<std::thread> others;
  const auto ring = [&] {
    while (!is_hung_up(socket))
      for (unsigned i = 0; i < 1000; ++i)
        static_cast<void>(
            ::send(wake_sender.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  };
  for (unsigned i = 0; i < 3; ++i) others.emplace_back(ring);
  ring();
  for (std::thread& one : others) one.join();
}

void flood_wakes(const std::string& directory) {
  for (;;) {
    const Joined joined = join_at_last(directory);
    flood(joined.socket, joined.wake_sender);
  }
}

void write_nonsense(const std::string& directory) {
  std::mt19937_64 random(1);
  for (;;) {
    const Joined joined = join_at_last(directory);
    auto* const words = reinterpret_cast<volatile std::uint64_t*>(joined.page.data());
    while (!is_hung_up(joined.socket))
      for (std::size_t i = 8; i < sizeof(ConsumerPage) / 8; ++i) words[i] = random();
  }
}

void join_and_leave(const std::string& directory) {
  for (;;) static_cast<void>(join_at_last(directory));
}

/// As many times a second, or as often as it can.
template <unsigned kTimes>
void join_and_leave_paced(const std::string& directory) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kBetween = std::chrono::nanoseconds(std::chrono::seconds(1)) / kTimes;
  for (auto next = Clock::now();; next = std::max(next + kBetween, Clock::now())) {
    std::this_thread::sleep_until(next);
    static_cast<void>(join_at_last(directory));
  }
}

void join_and_die(const std::string& directory) {
  for (;;) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      static_cast<void>(join(directory));
      ::kill(::getpid(), SIGKILL);
    }
    if (pid > 0) ::waitpid(pid, nullptr, 0);
  }
}

// ---- an admitted sender --------------------------------------------------------------------

/// Comes in, then `misbehave(socket, raw)` until it is hung up on; again and again.
template <class Misbehave>
void deliver(const std::string& directory, Misbehave misbehave) {
  for (;;) {
    const auto socket = connect_to(directory, "frames.sock");
    if (!socket) continue;
    test::RawProducer raw;
    WirePacket hello;
    hello.kind = PacketKind::hello;
    hello.purpose = Purpose::deliver;
    if (!send_wire(socket->get(), hello)) continue;
    const auto answer = receive_wire(socket->get(), a_while());
    if (!answer || answer->closed || answer->packet.kind != PacketKind::hello) continue;
    raw.take_in(*socket);
    note_blow();
    misbehave(*socket, raw);
  }
}

Result<void> announce(const Fd& socket, std::uint32_t number, Bytes bytes, int descriptor) {
  WirePacket packet;
  packet.kind = PacketKind::slab;
  packet.slab = number;
  packet.bytes = bytes;
  const std::array<int, 1> fds{descriptor};
  return send_wire(socket.get(), packet, fds);
}
bool is_queue_full(const Result<void>& sent) {
  if (!sent && sent.error().code == Code::timed_out) ::poll(nullptr, 0, 1);
  return !sent && sent.error().code == Code::timed_out;
}
/// A message in that slab, once the inbox has room for it. False: it has hung up.
bool publish(const Fd& socket, test::RawProducer& raw, std::uint32_t number, Bytes bytes) {
  while (number >= raw.consumer_page().taken.load(std::memory_order_seq_cst) +
                       test::RawProducer::kCellsUsed) {
    if (is_hung_up(socket)) return false;
    raw.wake();
    ::poll(nullptr, 0, 1);
  }
  MessageRecord record =
      test::RawProducer::block(number, static_cast<std::uint16_t>(number % 8), bytes);
  record.header.number = number;
  raw.publish(number, record);
  raw.wake();
  return true;
}

void announce_thousands_of_slabs(const std::string& directory) {
  deliver(directory, [](const Fd& socket, test::RawProducer& raw) {
    std::uint32_t number = 1;
    while (number < 5000) {
      const auto region = Region::create(4096, "x");
      if (!region) return;
      const auto sent = announce(socket, number, 4096, region->descriptor());
      if (is_queue_full(sent)) continue;
      if (!sent || !publish(socket, raw, number, 4096)) return;
      note_blow();
      ++number;
    }
  });
}

void flood_packets(const std::string& directory) {
  deliver(directory, [](const Fd& socket, test::RawProducer&) {
    WirePacket packet;
    packet.kind = PacketKind::slab_gone;
    for (packet.slab = 1; packet.slab < 1'000'000; ++packet.slab) {
      const auto sent = send_wire(socket.get(), packet);
      if (!sent && !is_queue_full(sent)) return;
    }
  });
}

// Comes in as deliver() does, but keeps what wakes the inbox.
void flood_inbox_wakes(const std::string& directory) {
  for (;;) {
    const auto socket = connect_to(directory, "frames.sock");
    test::RawProducer raw;
    WirePacket packet;
    packet.kind = PacketKind::hello;
    packet.purpose = Purpose::deliver;
    if (!socket || !send_wire(socket->get(), packet)) continue;
    const auto answer = receive_wire(socket->get(), a_while());
    packet.kind = PacketKind::welcome;
    if (!answer || answer->closed || !send_wire(socket->get(), packet, raw.welcome())) continue;
    const auto joined = receive_wire(socket->get(), a_while());
    if (!joined || joined->fds.size() != 3) continue;
    packet.kind = PacketKind::ready;
    static_cast<void>(send_wire(socket->get(), packet));
    note_blow();
    flood(*socket, joined->fds[1]);
  }
}

// Memory that has no pages yet: whoever reads it makes them.
Fd make_hole(Bytes bytes) {
  Fd memory(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) return {};
  ::fcntl(memory.get(), F_ADD_SEALS,
          F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
  return memory;
}

void claim_sizes(const std::string& directory) {
  constexpr Bytes kHole = Bytes{256} << 20;
  deliver(directory, [](const Fd& socket, test::RawProducer& raw) {
    for (std::uint32_t number = 1; number < 16; ++number) {
      const Fd memory = make_hole(kHole);
      const auto sent = announce(socket, number, kHole, memory.get());
      if (!sent && !is_queue_full(sent)) return;
      if (!publish(socket, raw, number, kHole)) return;
    }
  });
}

// ---- a client ------------------------------------------------------------------------------

template <class Misbehave>
void ask(const std::string& directory, Misbehave misbehave) {
  ClientOptions options;
  options.directory = directory;
  options.pool.slab_bytes = kMiB;
  options.slots = 64;
  for (;;) {
    auto client = Client::connect("frames", options, std::make_shared<test::PlainEngine>(),
                                  Deadline::after(std::chrono::milliseconds(100)));
    if (!client) continue;
    note_blow();
    misbehave(*client);
  }
}
CallOptions call_by(Deadline deadline) {
  // The servers under attack answer such requests at once; their tests know theirs by the type.
  return {.deadline = deadline, .type = 1};
}

void flood_requests(const std::string& directory) {
  ask(directory, [](Client& client) {
    const std::vector<std::byte> bytes(100);
    while (client.call_async(bytes, call_by(Deadline::after(std::chrono::milliseconds(10)))))
      continue;  // dropped at once: cancelled
  });
}
void never_read_replies(const std::string& directory) {
  ask(directory, [](Client& client) {
    const std::vector<std::byte> bytes(100);
    std::vector<PendingReply> pending;
    for (;;) {
      auto call = client.call_async(bytes, call_by(Deadline::after(std::chrono::seconds(60))));
      if (!call) break;
      pending.push_back(std::move(*call));
    }
    ::poll(nullptr, 0, 500);
  });
}
void send_late_deadlines(const std::string& directory) {
  ask(directory, [](Client& client) {
    const std::vector<std::byte> bytes(100);
    for (;;) {
      auto call = client.call_async(bytes, call_by(Deadline::now()));
      if (!call && call.error().code != Code::timed_out) return;
    }
  });
}

constexpr std::array kAttacks{
    Attack{"silence16", Target::producer, say_nothing_16},
    Attack{"silence64", Target::producer, say_nothing_64},
    Attack{"garbage", Target::producer, send_garbage},
    Attack{"descriptors", Target::producer, send_lingering_sockets},
    Attack{"coming_and_going", Target::producer, connect_and_close},
    Attack{"bridge_of_nonsense", Target::producer, hand_over_nonsense, 20},
    Attack{"reader_that_never_releases", Target::producer, never_release, 1, true},
    Attack{"reader_that_floods_the_wakes", Target::producer, flood_wakes, 1, true},
    Attack{"reader_that_writes_nonsense", Target::producer, write_nonsense, 1, true},
    Attack{"reader_that_joins_and_leaves", Target::producer, join_and_leave, 1, true},
    Attack{"reader_that_dies", Target::producer, join_and_die, 1, true},
    Attack{"silence16", Target::inbox, say_nothing_16},
    Attack{"silence64", Target::inbox, say_nothing_64},
    Attack{"garbage", Target::inbox, send_garbage},
    Attack{"descriptors", Target::inbox, send_lingering_sockets},
    Attack{"coming_and_going", Target::inbox, connect_and_close},
    Attack{"bridge_of_nonsense", Target::inbox, hand_over_nonsense, 20},
    Attack{"sender_of_many_slabs", Target::inbox, announce_thousands_of_slabs, 1200, true},
    Attack{"sender_that_floods_the_wakes", Target::inbox, flood_inbox_wakes, 1, true},
    Attack{"sender_that_floods_packets", Target::inbox, flood_packets, 1, true},
    Attack{"sender_that_claims_sizes", Target::inbox, claim_sizes, 1, true},
    Attack{"silence16", Target::server, say_nothing_16},
    Attack{"descriptors", Target::server, send_lingering_sockets},
    Attack{"bridge_of_nonsense", Target::server, hand_over_nonsense, 20},
    Attack{"client_that_floods", Target::server, flood_requests, 1, true},
    Attack{"client_that_never_reads", Target::server, never_read_replies, 1, true},
    Attack{"client_with_late_deadlines", Target::server, send_late_deadlines, 1, true},
};

constexpr std::array kPaced{
    Attack{"reader_that_joins_100_times_a_second", Target::producer, join_and_leave_paced<100>, 1,
           true},
    Attack{"reader_that_joins_1000_times_a_second", Target::producer, join_and_leave_paced<1000>, 1,
           true},
};

}  // namespace

void count_blows(std::atomic<unsigned>& counter) noexcept {
  blows_here = &counter;
}
// Relaxed: a number that is looked at again and again.
void note_blow() noexcept {
  if (blows_here != nullptr) blows_here->fetch_add(1, std::memory_order_relaxed);
}

std::span<const Attack> all_attacks() {
  return kAttacks;
}
std::span<const Attack> paced_attacks() {
  return kPaced;
}

}  // namespace gantry::attack
