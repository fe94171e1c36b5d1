// A hostile consumer at a real producer: packets in any order with any descriptors, then anything
// in its page while messages are sent. The producer must go on, and get all its memory back.
#include <sys/socket.h>

#include "core/base/os/socket.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "fuzz/folder.hpp"
#include "fuzz/input.hpp"

namespace {

using namespace gantry;
using namespace gantry::fuzz;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

struct Rig {
  Rig() {
    options.directory = place.path();
    options.slots = 4;
    options.consumers = 2;
    options.spin = std::chrono::nanoseconds(0);
    options.pool.slab_bytes = Bytes{1} << 20;
    options.pool.budget_bytes = Bytes{64} << 20;
    reopen();
    descriptors = wrong_descriptors();
  }
  /// What consumers hold that have left is theirs while their process lives, and it is this one.
  void reopen() {
    out.reset();
    out.emplace(*Producer::open("frames", options, *make_inline_engine()));
  }
  /// What a join may bring: right ones for small choices, else wrong ones.
  [[nodiscard]] int descriptor(std::uint8_t choice) const {
    const std::array<int, 3> right{memory.descriptor(), wake_receiver.wake_sender.descriptor(),
                                   metrics.descriptor()};
    return choice < right.size() ? right[choice] : descriptors[choice % descriptors.size()].get();
  }
  [[nodiscard]] ByteSpan page_bytes() const { return {memory.data(), sizeof(ConsumerPage)}; }

  Folder place;
  ProducerOptions options;
  std::optional<Producer> out;
  Region memory = *Region::create(shared_size(sizeof(ConsumerPage)), "x");
  WakeReceiver::Made wake_receiver = *WakeReceiver::make();
  Metrics metrics = *MetricsMaker::make_own();
  std::vector<Fd> descriptors;
  std::vector<std::byte> payload = std::vector<std::byte>(40'000);
};

void say(const Rig& rig, int socket, Input& input) {
  WirePacket packet;
  packet.kind = static_cast<PacketKind>(input.take<std::uint8_t>());
  packet.purpose = static_cast<Purpose>(input.take<std::uint8_t>());
  packet.slots = input.take<std::uint8_t>();
  packet.held = input.take<std::uint8_t>();
  std::vector<int> fds;
  for (unsigned count = input.take<std::uint8_t>() % 6; count > 0; --count)
    fds.push_back(rig.descriptor(input.take<std::uint8_t>()));
  if (fds.size() > kMaxPacketFds) fds.resize(kMaxPacketFds);
  static_cast<void>(send_wire(socket, packet, fds));
}

// In the right order, so that the rest of the input is about what comes behind.
bool join(const Rig& rig, int socket, std::uint8_t how) {
  WirePacket packet;
  packet.held = how % 4;  // its policy
  packet.slots = how / 4 % 4;
  packet.kind = PacketKind::hello;
  packet.purpose = Purpose::join;
  if (!send_wire(socket, packet)) return false;
  const auto welcome = receive_wire(socket, soon());
  if (!welcome || welcome->closed || welcome->packet.kind != PacketKind::welcome) return false;
  packet.kind = PacketKind::join;
  const std::array<int, 3> fds{rig.descriptor(0), rig.descriptor(1), rig.descriptor(2)};
  if (!send_wire(socket, packet, fds)) return false;
  for (;;) {
    const auto next = receive_wire(socket, soon());
    if (!next || next->closed) return false;
    if (next->packet.kind == PacketKind::ready) return true;
  }
}

void send_some(Rig& rig, Input& input) {
  for (unsigned i = 0; i < 4; ++i) {
    input.scribble(rig.page_bytes());
    const auto choice = input.take<std::uint8_t>();
    const SendOptions options{.deadline = Deadline::now(),
                              .mode = static_cast<SendMode>(choice % 4)};
    static_cast<void>(rig.out->send(
        ConstByteSpan(rig.payload).first(choice % 5 * rig.payload.size() / 4), options));
  }
}

// The acceptor hangs up on whoever has hung up: when that is seen here it is done with this one.
void await_hang_up(int socket) {
  ::shutdown(socket, SHUT_WR);
  for (;;) {
    const auto received = receive_wire(socket, soon());
    if (received && received->closed) return;
    if (!received && received.error().code == Code::timed_out) std::abort();
    if (!received && received.error().code == Code::system) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Rig rig;
  static unsigned runs = 0;
  if (++runs % 64 == 0) rig.reopen();
  Input input(data, size);
  static_cast<void>(make_page<ConsumerPage>(rig.memory, kConsumerMagic));
  const auto how = input.take<std::uint8_t>();
  const bool by_the_rules = (how & 1) != 0;
  const Fd socket = *connect_to(rig.place.path(), "frames.sock");
  if (by_the_rules && join(rig, socket.get(), how / 2)) send_some(rig, input);
  while (!input.empty()) {
    if (input.take<std::uint8_t>() % 4 == 0)
      static_cast<void>(send_packet(socket.get(), std::as_bytes(input.take_bytes(80))));
    else
      say(rig, socket.get(), input);
  }
  await_hang_up(socket.get());
  return 0;
}
