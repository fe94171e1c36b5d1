#include "channel/status/status_wire.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "channel/wire/format.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kStatusMagic = 0x33544154'53544e47;  // "GNTSTAT3"
constexpr std::uint64_t kInboxMagic = 0x34584f42'4e544e47;   // "GNTNBOX4"

class Writer {
 public:
  void number(std::uint64_t value) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), bytes, bytes + sizeof value);
  }
  void time(std::chrono::nanoseconds value) { number(static_cast<std::uint64_t>(value.count())); }
  void text(std::string_view value) {
    value = value.substr(0, kMaxStatusText);
    number(value.size());
    const auto* const bytes = reinterpret_cast<const std::byte*>(value.data());
    out_.insert(out_.end(), bytes, bytes + value.size());
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

/// After the first impossible value everything reads as 0, and failed() says so.
class ConsumerState {
 public:
  explicit ConsumerState(ConstByteSpan bytes) noexcept : rest_(bytes) {}

  std::uint64_t number(std::uint64_t most = ~std::uint64_t{0}) {
    std::uint64_t value = 0;
    if (rest_.size() < sizeof value) return refuse();
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value <= most ? value : refuse();
  }
  template <class Number>
  void into(Number& to, std::uint64_t most = std::numeric_limits<Number>::max()) {
    to = static_cast<Number>(number(most));
  }
  template <class Enumeration>
  void choice(Enumeration& to, Enumeration last) {
    to = static_cast<Enumeration>(number(static_cast<std::uint64_t>(last)));
  }
  void policy(SlowConsumer& to) {
    const auto read = static_cast<SlowConsumer>(number(0xff));
    if (to_string(read) == "?")
      refuse();
    else
      to = read;
  }
  void flag(bool& to) { to = number(1) != 0; }
  void time(std::chrono::nanoseconds& to) {
    to = std::chrono::nanoseconds(
        static_cast<std::int64_t>(number(std::numeric_limits<std::int64_t>::max())));
  }
  void text(std::string& to) {
    const auto size = static_cast<std::size_t>(number(kMaxStatusText));
    if (size > rest_.size()) {
      refuse();
      return;
    }
    to.assign(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
    // It goes to somebody's terminal.
    std::ranges::replace_if(
        to, [](unsigned char c) { return (c < 0x20 && c != '\n') || c >= 0x7f; }, '?');
  }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }

 private:
  std::uint64_t refuse() noexcept {
    failed_ = true;
    rest_ = {};
    return 0;
  }
  ConstByteSpan rest_;
  bool failed_ = false;
};

// ---- metrics -------------------------------------------------------------------------------

void write(Writer& out, const MetricsReport& report) {
  out.number((report.opened ? 1u : 0u) | (report.connected ? 2u : 0u));
  for (const std::uint64_t value : {report.messages, report.bytes}) out.number(value);
  for (const std::uint64_t value : report.copies) out.number(value);
  for (const std::uint64_t value : report.copied_bytes) out.number(value);
  for (const std::uint64_t value :
       {report.copy_ns, report.cpu_ns, report.wait_ns, report.handoff_p50_ns, report.handoff_p99_ns,
        report.handoff_p999_ns, report.handoff_total_ns, report.idle_ns})
    out.number(value);
}

void read(ConsumerState& in, MetricsReport& report) {
  const std::uint64_t flags = in.number(3);
  report.opened = (flags & 1) != 0;
  report.connected = (flags & 2) != 0;
  for (std::uint64_t* value : {&report.messages, &report.bytes}) in.into(*value);
  for (std::uint64_t& value : report.copies) in.into(value);
  for (std::uint64_t& value : report.copied_bytes) in.into(value);
  for (std::uint64_t* value :
       {&report.copy_ns, &report.cpu_ns, &report.wait_ns, &report.handoff_p50_ns,
        &report.handoff_p99_ns, &report.handoff_p999_ns, &report.handoff_total_ns, &report.idle_ns})
    in.into(*value);
}

// ---- names ---------------------------------------------------------------------------------

void write(Writer& out, const EndName& name) {
  for (const std::string* text : {&name.host, &name.command, &name.stage})
    out.text(std::string_view(*text).substr(0, EndName::kMostBytes));
  out.number(name.replica);
  out.number(name.replicas);
}

void read(ConsumerState& in, EndName& name) {
  for (std::string* text : {&name.host, &name.command, &name.stage}) {
    in.text(*text);
    text->resize(std::min(text->size(), EndName::kMostBytes));
    std::ranges::replace(*text, '\n', '?');
  }
  in.into(name.replica);
  in.into(name.replicas);
}

// ---- consumers -------------------------------------------------------------------------------

void write(Writer& out, const ConsumerStatus& consumer) {
  out.number(static_cast<std::uint64_t>(consumer.pid));
  write(out, consumer.who);
  out.number(consumer.uid);
  out.number(static_cast<std::uint64_t>(consumer.policy));
  out.number(consumer.depth);
  out.number(consumer.unread);
  out.number(consumer.dropped);
  out.number((consumer.is_cut ? 1u : 0u) | (consumer.holds_up ? 2u : 0u));
  out.time(consumer.joined);
  out.time(consumer.idle);
  out.number(consumer.held.size());
  for (const HeldSlot& slot : consumer.held) {
    out.number(slot.message);
    out.number(slot.bytes);
    out.time(slot.age);
    out.number(slot.taken ? 1 : 0);
  }
  write(out, consumer.metrics);
  for (const std::uint64_t count : consumer.handoffs) out.number(count);
}

void read(ConsumerState& in, ConsumerStatus& consumer) {
  in.into(consumer.pid);
  read(in, consumer.who);
  in.into(consumer.uid);
  in.policy(consumer.policy);
  in.into(consumer.depth);
  in.into(consumer.unread);
  in.into(consumer.dropped);
  const std::uint64_t flags = in.number(3);
  consumer.is_cut = (flags & 1) != 0;
  consumer.holds_up = (flags & 2) != 0;
  in.time(consumer.joined);
  in.time(consumer.idle);
  for (std::uint64_t left = in.number(kMaxSlots); left > 0 && !in.failed(); --left) {
    HeldSlot& slot = consumer.held.emplace_back();
    in.into(slot.message);
    in.into(slot.bytes);
    in.time(slot.age);
    in.flag(slot.taken);
  }
  read(in, consumer.metrics);
  for (std::uint64_t& count : consumer.handoffs) in.into(count);
}

void write(Writer& out, const DepartedStatus& one) {
  out.number(static_cast<std::uint64_t>(one.pid));
  write(out, one.who);
  out.number(one.messages);
  out.number(one.bytes);
  out.time(one.age);
}

void read(ConsumerState& in, DepartedStatus& one) {
  in.into(one.pid);
  read(in, one.who);
  in.into(one.messages);
  in.into(one.bytes);
  in.time(one.age);
}

// ---- the channel ---------------------------------------------------------------------------

void write_totals(Writer& out, const ChannelStatus& status) {
  write(out, status.producer_who);
  out.time(status.age);
  out.number(static_cast<std::uint64_t>(status.mode));
  out.number(status.ended ? 1 : 0);
  for (const std::uint64_t value :
       {std::uint64_t{status.slots}, std::uint64_t{status.slots_held},
        std::uint64_t{status.slots_charged}, std::uint64_t{status.slots_sending},
        std::uint64_t{status.consumers_limit}, std::uint64_t{status.history_limit},
        std::uint64_t{status.history}})
    out.number(value);
  for (const std::uint64_t value :
       {status.bytes_in_flight, status.bytes_charged, status.backlog, status.slab_bytes,
        status.live_bytes, status.budget_bytes, status.peak_bytes, status.registrations,
        status.refused_registrations})
    out.number(value);
  out.text(status.engine);
  out.number(status.path.bytes);
  out.number(status.path.moved);
  out.number(static_cast<std::uint64_t>(status.path.mode));
  out.number(static_cast<std::uint64_t>(status.path.engine));
  out.number(static_cast<std::uint64_t>(status.path.cache));
  out.text(status.path.why);
}

void read_totals(ConsumerState& in, ChannelStatus& status) {
  read(in, status.producer_who);
  in.time(status.age);
  in.choice(status.mode, SendMode::immutable);
  in.flag(status.ended);
  for (unsigned* value :
       {&status.slots, &status.slots_held, &status.slots_charged, &status.slots_sending,
        &status.consumers_limit, &status.history_limit, &status.history})
    in.into(*value);
  for (std::uint64_t* value :
       {&status.bytes_in_flight, &status.bytes_charged, &status.backlog, &status.slab_bytes,
        &status.live_bytes, &status.budget_bytes, &status.peak_bytes, &status.registrations,
        &status.refused_registrations})
    in.into(*value);
  in.text(status.engine);
  in.into(status.path.bytes);
  in.into(status.path.moved);
  in.choice(status.path.mode, SendMode::immutable);
  in.choice(status.path.engine, static_cast<CopyEngine>(kCopyEngines - 1));
  in.choice(status.path.cache, CacheUse::streaming);
  in.text(status.path.why);
}

// ---- an inbox ------------------------------------------------------------------------------

std::vector<std::byte> encode_inbox(const ChannelStatus& status) {
  Writer out;
  out.number(kInboxMagic);
  out.number(status.is_server ? 1 : 0);
  out.time(status.age);
  out.number(status.senders_limit);
  write(out, status.producer);
  write(out, status.consumers.at(0).who);
  for (const std::uint64_t count : status.consumers.at(0).handoffs) out.number(count);
  const std::size_t senders = std::min(status.senders.size(), kMaxSendersTold);
  out.number(senders);
  for (std::size_t i = 0; i < senders; ++i) {
    const SenderStatus& one = status.senders[i];
    out.number(static_cast<std::uint64_t>(one.pid));
    write(out, one.who);
    out.number(one.uid);
    out.time(one.joined);
    out.time(one.idle);
    out.number(one.messages);
    out.number(one.bytes);
    out.number(one.credits);
    out.number(one.unread);
    out.number(one.held);
    out.number(one.waits ? 1 : 0);
  }
  return out.take();
}

void read_inbox(ConsumerState& in, ChannelStatus& status) {
  status.is_inbox = true;
  in.flag(status.is_server);
  in.time(status.age);
  in.into(status.senders_limit);
  read(in, status.producer);
  ConsumerStatus& receiver = status.consumers.emplace_back();
  read(in, receiver.who);
  for (std::uint64_t& count : receiver.handoffs) in.into(count);
  for (std::uint64_t left = in.number(kMaxSendersTold); left > 0 && !in.failed(); --left) {
    SenderStatus& one = status.senders.emplace_back();
    in.into(one.pid);
    read(in, one.who);
    in.into(one.uid);
    in.time(one.joined);
    in.time(one.idle);
    in.into(one.messages);
    in.into(one.bytes);
    in.into(one.credits);
    in.into(one.unread);
    in.into(one.held);
    in.flag(one.waits);
  }
}

void read_channel(ConsumerState& in, ChannelStatus& status) {
  read_totals(in, status);
  read(in, status.producer);
  for (std::uint64_t left = in.number(kMaxConsumers); left > 0 && !in.failed(); --left)
    read(in, status.consumers.emplace_back());
  for (std::uint64_t left = in.number(kMaxDeparted); left > 0 && !in.failed(); --left)
    read(in, status.departed.emplace_back());
}

}  // namespace

std::vector<std::byte> encode_status(const ChannelStatus& status) {
  if (status.is_inbox) return encode_inbox(status);
  Writer out;
  out.number(kStatusMagic);
  write_totals(out, status);
  write(out, status.producer);
  out.number(status.consumers.size());
  for (const ConsumerStatus& consumer : status.consumers) write(out, consumer);
  const std::size_t departed = std::min(status.departed.size(), kMaxDeparted);
  out.number(departed);
  for (std::size_t i = 0; i < departed; ++i) write(out, status.departed[i]);
  return out.take();
}

Result<void> decode_status(ConstByteSpan bytes, ChannelStatus& status) {
  ConsumerState in(bytes);
  const std::uint64_t magic = in.number();
  if (magic == kInboxMagic)
    read_inbox(in, status);
  else if (magic == kStatusMagic)
    read_channel(in, status);
  else
    return fail(Code::peer_misbehaved, "its answer is no status");
  if (in.failed() || !in.at_end()) return fail(Code::peer_misbehaved, "its answer is malformed");
  return {};
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
                fmt::format("it announces an answer of {} bytes", answer.packet.bytes));
  wanted_ = answer.packet.bytes;
  begun_ = true;
  return false;
}

Result<bool> StatusReceiver::take_in(int socket) {
  if (!begun_) return begin(socket);
  const Bytes before = bytes_.size();
  bytes_.resize(before + std::min(wanted_ - before, kStatusPacketBytes));
  auto packet = receive_packet(socket, std::span(bytes_).subspan(before), Deadline::now());
  bytes_.resize(before + (packet ? packet->size : 0));
  if (!packet) return tl::unexpected(std::move(packet).error());
  if (packet->size == 0) return fail(Code::peer_gone, "it hung up in the middle of its answer");
  return bytes_.size() == wanted_;
}

}  // namespace gantry
