// A hostile producer at a real consumer: any packets in the handshake and behind it, anything in
// the pages and in the slabs. The consumer says what it does not believe, and leaves.
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "core/base/os/socket.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "fuzz/folder.hpp"
#include "fuzz/input.hpp"

namespace {

using namespace gantry;
using namespace gantry::fuzz;

constexpr Bytes kSlabBytes = 64 << 10;

struct Rig {
  Rig() { descriptors = wrong_descriptors(); }
  [[nodiscard]] int descriptor(std::uint8_t choice) const {
    const std::array<int, 5> right{memory.descriptor(), ring_memory.descriptor(),
                                   wake_receiver.wake_sender.descriptor(), metrics.descriptor(),
                                   slab.descriptor()};
    return choice < right.size() ? right[choice] : descriptors[choice % descriptors.size()].get();
  }
  void reset() {
    auto* const page = make_page<ProducerPage>(memory, kProducerMagic);
    page->slots = 8;
    auto* const ring = make_page<RingPage>(ring_memory, kRingMagic);
    ring->cells = 16;
    for (std::uint64_t i = 1; i < 16; ++i) ring->ring[i].record.header.number = i;
  }

  Folder place;
  Claim claim = *Claim::take(place.path(), "frames");
  Region memory = *Region::create(shared_size(sizeof(ProducerPage)), "x");
  Region ring_memory = *Region::create(shared_size(sizeof(RingPage)), "x");
  Region slab = *Region::create(kSlabBytes, "x");
  WakeReceiver::Made wake_receiver = *WakeReceiver::make();
  Metrics metrics = *MetricsMaker::make_own();
  std::vector<Fd> descriptors;
};

void say(const Rig& rig, int socket, Input& input) {
  WirePacket packet;
  packet.kind = static_cast<PacketKind>(input.take<std::uint8_t>());
  packet.slab = input.take<std::uint8_t>();
  packet.bytes = std::uint64_t{input.take<std::uint8_t>()} << 12;
  packet.reason = input.take<std::uint8_t>();
  std::vector<int> fds;
  for (unsigned count = input.take<std::uint8_t>() % 5; count > 0; --count)
    fds.push_back(rig.descriptor(input.take<std::uint8_t>()));
  static_cast<void>(send_wire(socket, packet, fds));
}

void say_welcome(const Rig& rig, int socket) {
  WirePacket packet;
  packet.kind = PacketKind::welcome;
  const std::array<int, 3> fds{rig.descriptor(0), rig.descriptor(1), rig.descriptor(2)};
  static_cast<void>(send_wire(socket, packet, fds));
  packet.kind = PacketKind::slab;
  packet.slab = 1;
  packet.bytes = kSlabBytes;
  const int slab = rig.slab.descriptor();
  static_cast<void>(send_wire(socket, packet, std::span(&slab, 1)));
  packet.kind = PacketKind::ready;
  static_cast<void>(send_wire(socket, packet));
}

// Until `descriptor` is readable; false: the input is over.
bool await(int descriptor, int over) {
  std::array<pollfd, 2> entries{pollfd{descriptor, POLLIN, 0}, pollfd{over, POLLIN, 0}};
  while (::poll(entries.data(), entries.size(), -1) < 0) continue;
  return entries[1].revents == 0;
}

// What it says does not depend on what it hears, so it is said at once.
void serve(const Rig& rig, const Input& input, bool by_the_rules, int over) {
  while (await(rig.claim.listener(), over)) {
    const Fd socket(::accept4(rig.claim.listener(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    Input words = input;
    if (by_the_rules) say_welcome(rig, socket.get());
    while (!words.empty()) say(rig, socket.get(), words);
    ::shutdown(socket.get(), SHUT_WR);
    while (await(socket.get(), over)) {
      const auto heard = receive_wire(socket.get(), Deadline::now());
      if (heard && heard->closed) break;
    }
  }
}

std::uint64_t read_all(ConstByteSpan bytes) {
  std::uint64_t sum = 0;
  for (const std::byte one : bytes) sum += static_cast<std::uint64_t>(one);
  return sum;
}

void receive_some(Consumer& in, std::uint8_t how) {
  static std::vector<std::byte> buffer(kSlabBytes);
  for (unsigned i = 0; i < 8; ++i, how = static_cast<std::uint8_t>(how * 5 + 1)) {
    if (how % 3 == 0) {
      if (const auto message = in.receive(Deadline::now()))
        for (std::size_t part = 0; part < message->segments(); ++part)
          read_all(message->segment(part).bytes);
    } else if (how % 3 == 1) {
      auto incoming = in.receive_early(Deadline::now());
      for (unsigned chunk = 0; incoming && chunk < 64; ++chunk) {
        const auto bytes = incoming->next(Deadline::now());
        if (!bytes || bytes->empty()) break;
        read_all(*bytes);
      }
    } else {
      static_cast<void>(in.receive_into(buffer, Deadline::now()));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Rig rig;
  Input input(data, size);
  rig.reset();
  const auto how = input.take<std::uint8_t>();
  Input words(nullptr, 0);
  const auto said = input.take_bytes(input.take<std::uint8_t>());
  words = Input(said.data(), said.size());
  input.scribble({rig.memory.data(), sizeof(ProducerPage)});
  input.scribble({rig.slab.data(), kSlabBytes});
  input.scribble({rig.ring_memory.data(), sizeof(RingPage)});
  const Fd over = *make_event();
  std::thread serving([&] { serve(rig, words, how % 4 != 0, over.get()); });
  ConsumerOptions options;
  options.directory = rig.place.path();
  options.spin = std::chrono::nanoseconds(0);
  if ((how & 0x80) != 0) options.when_slow = SlowConsumer::drop_oldest;
  {
    auto in = Consumer::open("frames", options, Deadline::after(std::chrono::seconds(2)));
    if (in) receive_some(*in, how);
  }
  ring(over.get());
  serving.join();
  return 0;
}
