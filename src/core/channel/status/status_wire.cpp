#include "core/channel/status/status_wire.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/assert.hpp"
#include "core/channel/wire/format.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kStatusMagic = 0x33544154'53544e47;  // "GNTSTAT3"
constexpr std::uint64_t kInboxMagic = 0x34584f42'4e544e47;   // "GNTNBOX4"

/// Writes the fields that visit_fields() names. A number takes 8 bytes.
class WireWriter {
 public:
  template <class Status>
  using Of = const Status;

  template <class Number>
  void number(Number value, std::uint64_t /*most*/ = 0) {
    const auto wide = static_cast<std::uint64_t>(value);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&wide);
    out_.insert(out_.end(), bytes, bytes + sizeof wide);
  }
  template <class Enumeration>
  void choice(Enumeration value, Enumeration /*last*/) {
    number(value);
  }
  void flag(bool value) { number(value); }
  void flags(bool first, bool second) { number((first ? 1u : 0u) | (second ? 2u : 0u)); }
  void time(std::chrono::nanoseconds value) { number(value.count()); }
  void text(std::string_view value) {
    value = value.substr(0, kMaxStatusText);
    number(value.size());
    const auto* const bytes = reinterpret_cast<const std::byte*>(value.data());
    out_.insert(out_.end(), bytes, bytes + value.size());
  }
  void name(std::string_view value) { text(value.substr(0, EndName::kMostBytes)); }
  template <class Status>
  void list(const std::vector<Status>& all, std::size_t most) {
    const auto listed = std::span(all).first(std::min(all.size(), most));
    number(listed.size());
    for (const Status& one : listed) visit_fields(*this, one);
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

/// Reads them. After the first impossible value everything reads as 0, and check() says which.
class WireReader {
 public:
  template <class Status>
  using Of = Status;

  explicit WireReader(ConstByteSpan bytes) noexcept : all_(bytes), rest_(bytes) {}

  template <class Number>
  void number(Number& to, std::uint64_t most = std::numeric_limits<Number>::max()) {
    to = static_cast<Number>(word(most));
  }
  template <class Enumeration>
  void choice(Enumeration& to, Enumeration last) {
    to = static_cast<Enumeration>(word(static_cast<std::uint64_t>(last)));
  }
  void flag(bool& to) { to = word(1) != 0; }
  void flags(bool& first, bool& second) {
    const std::uint64_t both = word(3);
    first = (both & 1) != 0;
    second = (both & 2) != 0;
  }
  void time(std::chrono::nanoseconds& to) {
    to = std::chrono::nanoseconds(
        static_cast<std::int64_t>(word(std::numeric_limits<std::int64_t>::max())));
  }
  void text(std::string& to) {
    const auto size = static_cast<std::size_t>(word(std::min(kMaxStatusText, after_word())));
    to.assign(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
    // It goes to somebody's terminal.
    std::ranges::replace_if(
        to, [](unsigned char c) { return (c < 0x20 && c != '\n') || c >= 0x7f; }, '?');
  }
  void name(std::string& to) {
    text(to);
    to.resize(std::min(to.size(), EndName::kMostBytes));
    std::ranges::replace(to, '\n', '?');
  }
  template <class Status>
  void list(std::vector<Status>& all, std::size_t most) {
    for (std::uint64_t left = word(most); left > 0 && wrong_.empty(); --left)
      visit_fields(*this, all.emplace_back());
  }
  /// Needs to be asked last. Error: `peer_misbehaved`.
  [[nodiscard]] Result<void> check() const {
    if (!wrong_.empty()) return fail(Code::peer_misbehaved, wrong_);
    if (rest_.empty()) return {};
    return fail(Code::peer_misbehaved,
                fmt::format("its answer has {} bytes; {} of them are its fields", all_.size(),
                            all_.size() - rest_.size()));
  }

 private:
  static constexpr std::size_t kWord = sizeof(std::uint64_t);

  [[nodiscard]] std::size_t after_word() const noexcept {
    return rest_.size() - std::min(rest_.size(), kWord);
  }
  std::uint64_t word(std::uint64_t most) {
    const std::size_t at = all_.size() - rest_.size();
    if (rest_.size() < kWord) return refuse(fmt::format("its answer ends in a number at {}", at));
    std::uint64_t value = 0;
    std::memcpy(&value, rest_.data(), kWord);
    rest_ = rest_.subspan(kWord);
    if (value <= most) return value;
    return refuse(
        fmt::format("its answer has {} at byte {}, where at most {} is allowed", value, at, most));
  }
  std::uint64_t refuse(std::string wrong) {
    if (wrong_.empty()) wrong_ = std::move(wrong);
    rest_ = rest_.last(0);
    return 0;
  }

  ConstByteSpan all_;
  ConstByteSpan rest_;
  std::string wrong_;
};

// ---- the fields, in the order in which they go over the wire ---------------------------------

template <class Wire>
void visit_fields(Wire& wire, typename Wire::template Of<MetricsReport>& report) {
  wire.flags(report.opened, report.connected);
  for (auto* value : {&report.messages, &report.bytes}) wire.number(*value);
  for (auto& value : report.copies) wire.number(value);
  for (auto& value : report.copied_bytes) wire.number(value);
  for (auto* value :
       {&report.copy_ns, &report.cpu_ns, &report.wait_ns, &report.handoff_p50_ns,
        &report.handoff_p99_ns, &report.handoff_p999_ns, &report.handoff_total_ns, &report.idle_ns})
    wire.number(*value);
}

template <class Wire>
void visit_fields(Wire& wire, typename Wire::template Of<EndName>& name) {
  for (auto* text : {&name.host, &name.command, &name.stage}) wire.name(*text);
  wire.number(name.replica);
  wire.number(name.replicas);
}

template <class Wire>
void visit_fields(Wire& wire, typename Wire::template Of<HeldSlot>& slot) {
  wire.number(slot.message);
  wire.number(slot.bytes);
  wire.time(slot.age);
  wire.flag(slot.taken);
}

template <class Wire>
void visit_fields(Wire& wire, typename Wire::template Of<ConsumerStatus>& consumer) {
  wire.number(consumer.pid);
  visit_fields(wire, consumer.who);
  wire.number(consumer.uid);
  wire.choice(consumer.policy, SlowConsumer::drop_oldest);
  wire.number(consumer.depth);
  wire.number(consumer.unread);
  wire.number(consumer.dropped);
  wire.flags(consumer.is_cut, consumer.holds_up);
  wire.time(consumer.joined);
  wire.time(consumer.idle);
  wire.list(consumer.held, kMaxSlots);
  visit_fields(wire, consumer.metrics);
  for (auto& count : consumer.handoffs) wire.number(count);
}

template <class Wire>
void visit_fields(Wire& wire, typename Wire::template Of<DepartedStatus>& one) {
  wire.number(one.pid);
  visit_fields(wire, one.who);
  wire.number(one.messages);
  wire.number(one.bytes);
  wire.time(one.age);
}

template <class Wire>
void visit_fields(Wire& wire, typename Wire::template Of<SenderStatus>& one) {
  wire.number(one.pid);
  visit_fields(wire, one.who);
  wire.number(one.uid);
  wire.time(one.joined);
  wire.time(one.idle);
  wire.number(one.messages);
  wire.number(one.bytes);
  wire.number(one.credits);
  wire.number(one.unread);
  wire.number(one.held);
  wire.flag(one.waits);
}

template <class Wire>
void visit_fields(Wire& wire, typename Wire::template Of<PathStatus>& path) {
  wire.number(path.bytes);
  wire.number(path.moved);
  wire.choice(path.mode, SendMode::immutable);
  wire.choice(path.engine, static_cast<CopyEngine>(kCopyEngines - 1));
  wire.choice(path.cache, CacheUse::streaming);
  wire.text(path.why);
}

template <class Wire>
void visit_fields(Wire& wire, typename Wire::template Of<ChannelStatus>& status) {
  visit_fields(wire, status.producer_who);
  wire.time(status.age);
  wire.choice(status.mode, SendMode::immutable);
  wire.flag(status.ended);
  for (auto* value :
       {&status.slots, &status.slots_held, &status.slots_charged, &status.slots_sending,
        &status.consumers_limit, &status.history_limit, &status.history})
    wire.number(*value);
  for (auto* value : {&status.bytes_in_flight, &status.bytes_charged, &status.backlog,
                      &status.slab_bytes, &status.live_bytes, &status.budget_bytes,
                      &status.peak_bytes, &status.registrations, &status.refused_registrations})
    wire.number(*value);
  wire.text(status.engine);
  visit_fields(wire, status.path);
  visit_fields(wire, status.producer);
  wire.list(status.consumers, kMaxConsumers);
  wire.list(status.departed, kMaxDeparted);
}

/// `receiver`: its one consumer.
template <class Wire>
void visit_inbox(Wire& wire, typename Wire::template Of<ChannelStatus>& status,
                 typename Wire::template Of<ConsumerStatus>& receiver) {
  wire.flag(status.is_server);
  wire.time(status.age);
  wire.number(status.senders_limit);
  visit_fields(wire, status.producer);
  visit_fields(wire, receiver.who);
  for (auto& count : receiver.handoffs) wire.number(count);
  wire.list(status.senders, kMaxSendersTold);
}

}  // namespace

std::vector<std::byte> encode_status(const ChannelStatus& status) {
  WireWriter out;
  out.number(status.is_inbox ? kInboxMagic : kStatusMagic);
  if (status.is_inbox)
    visit_inbox(out, status, status.consumers.at(0));
  else
    visit_fields(out, status);
  return out.take();
}

Result<void> decode_status(ConstByteSpan bytes, ChannelStatus& status) {
  WireReader in(bytes);
  std::uint64_t magic = 0;
  in.number(magic);
  if (magic == kInboxMagic) {
    status.is_inbox = true;
    visit_inbox(in, status, status.consumers.emplace_back());
  } else if (magic == kStatusMagic) {
    visit_fields(in, status);
  } else {
    return fail(Code::peer_misbehaved,
                fmt::format("its answer begins with {:#x}, neither a channel's {:#x} nor an "
                            "inbox's {:#x}",
                            magic, kStatusMagic, kInboxMagic));
  }
  return in.check();
}

// ---- packets -------------------------------------------------------------------------------

void name_the_receiver(ChannelStatus& status) {
  ConsumerStatus& receiver = status.consumers.at(0);
  receiver.pid = std::exchange(status.producer_pid, 0);
  receiver.uid = std::exchange(status.producer_uid, 0);
  receiver.joined = status.age;
  receiver.idle = status.age;
  if (status.producer.messages != 0 &&
      status.producer.idle_ns < static_cast<std::uint64_t>(status.age.count()))
    receiver.idle = std::chrono::nanoseconds(static_cast<std::int64_t>(status.producer.idle_ns));
  receiver.metrics = status.producer;
}

Result<void> send_status(int socket, ConstByteSpan answer) {
  WirePacket packet;
  packet.kind = PacketKind::status;
  packet.bytes = answer.size();
  GANTRY_TRY(send_wire(socket, packet));
  while (!answer.empty()) {
    const ConstByteSpan part = answer.first(std::min(answer.size(), kStatusPacketBytes));
    GANTRY_TRY(send_packet(socket, part));
    answer = answer.subspan(part.size());
  }
  return {};
}

Result<bool> StatusReceiver::begin(int socket) {
  GANTRY_ASSIGN(Received received, receive_wire(socket, Deadline::now()));
  GANTRY_ASSIGN(const Received answer, expect(std::move(received), PacketKind::status, 0));
  if (answer.packet.bytes == 0 || answer.packet.bytes > kMaxStatusBytes)
    return fail(Code::peer_misbehaved,
                fmt::format("it announces an answer of {} bytes; 1 to {} are allowed",
                            answer.packet.bytes, kMaxStatusBytes));
  wanted_ = answer.packet.bytes;
  begun_ = true;
  return false;
}

Result<bool> StatusReceiver::take_in(int socket) {
  if (!begun_) return begin(socket);
  const Bytes before = bytes_.size();
  GANTRY_ASSERT(before < wanted_);
  bytes_.resize(before + std::min(wanted_ - before, kStatusPacketBytes));
  auto packet = receive_packet(socket, std::span(bytes_).subspan(before), Deadline::now());
  bytes_.resize(before + (packet ? packet->size : 0));
  if (!packet) return tl::unexpected(std::move(packet).error());
  if (packet->size == 0) return fail(Code::peer_gone, "it hung up in the middle of its answer");
  return bytes_.size() == wanted_;
}

}  // namespace gantry
