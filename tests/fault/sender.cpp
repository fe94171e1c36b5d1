#include "fault/sender.hpp"

#include <sys/mman.h>

#include "core/base/clock.hpp"
#include "fault/payload.hpp"

namespace gantry::fault {
namespace {

constexpr unsigned kSlots = 3;

ProducerOptions sending_options(const Part& part) {
  ProducerOptions options;
  options.directory = part.directory;
  options.slots = kSlots;
  options.spin = std::chrono::nanoseconds(0);
  options.pool.slab_bytes = Bytes{512} << 10;
  options.mode = part.scenario.mode;
  options.consumers = part.scenario.consumers;
  options.history = part.scenario.history;
  if (part.scenario.widened) options.as = *As::parse("u8 -> u16");
  return options;
}

}  // namespace

/// Both ends of a channel in this process.
struct Sender::Upstream {
  std::optional<Producer> out;
  std::optional<Consumer> in;
};

Sender::Sender(const Part& part, std::string_view name) : part_(part) {
  if (part.scenario.pattern == Pattern::inbox)
    connect();
  else
    open_named(name);
  if (part.scenario.via == Via::forward) open_upstream();
}

void Sender::open_named(std::string_view name) {
  auto opened = patiently(
      part_, [&](Deadline) { return Producer::open(name, sending_options(part_), part_.engine); });
  if (!opened) give_up("opening a producer", opened.error());
  producer_.emplace(std::move(*opened));
}

void Sender::connect() {
  auto come = patiently(part_, [&](Deadline deadline) {
    return Producer::connect("frames", sending_options(part_), part_.engine, deadline);
  });
  if (!come) give_up("coming to the inbox", come.error());
  producer_.emplace(std::move(*come));
}

void Sender::open_upstream() {
  upstream_ = std::make_shared<Upstream>();
  const std::string own = "upstream";
  // More credits than below: a forwarded message is let go when the next one is sent, no earlier.
  ProducerOptions upstream = sending_options(part_);
  upstream.slots = 2 * kSlots;
  auto out = Producer::open(own, upstream, part_.engine);
  if (!out) give_up("opening an upstream", out.error());
  upstream_->out.emplace(std::move(*out));
  auto in = Consumer::open(own, {upstream}, Deadline::after(std::chrono::seconds(20)));
  if (!in) give_up("joining the upstream", in.error());
  upstream_->in.emplace(std::move(*in));
}

std::vector<std::byte> Sender::payload_of(std::uint64_t id) const {
  std::vector<std::byte> bytes(payload_bytes(part_.scenario, id));
  fill_payload(bytes, number_of(part_.sender, id));
  return bytes;
}

void Sender::await_consumers(unsigned count) {
  const auto there = patiently(
      part_, [&](Deadline deadline) { return producer_->wait_for_consumer(deadline, count); });
  if (!there) give_up("waiting for a consumer", there.error());
}

bool Sender::close() {
  const std::uint64_t asked = monotonic_ns();
  const auto closed =
      patiently(part_, [&](Deadline deadline) { return producer_->close(deadline); });
  if (closed) return true;
  if (closed.error().code != Code::peer_gone) give_up("closing", closed.error());
  note_gone(part_, asked);
  return false;
}

void Sender::close_at_last() {
  while (!close()) await_consumers(1);
}

void Sender::burst(std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t id = first; id < first + count; ++id) send_one(id);
  while (!unsent_.empty()) await_oldest();
}

void Sender::send_one(std::uint64_t id) {
  if (part_.scenario.pattern == Pattern::inbox) {
    send_at_last(id);
  } else if (is_given_up(part_.scenario, id)) {
    send_unreadable(id);
  } else if (part_.scenario.via == Via::async) {
    if (unsent_.size() == kSlots) await_oldest();
    auto payload = payload_of(id);
    const auto ticket = producer_->send_async(payload);
    if (!ticket) give_up("send_async", ticket.error());
    unsent_.push_back({id, *ticket, std::move(payload)});
  } else {
    const std::uint64_t asked = monotonic_ns();
    judge(id, patiently(part_, [&](Deadline deadline) { return send_by(id, deadline); }), asked);
  }
}

// What could not be sent was not sent, not even to the next inbox: it is sent again.
void Sender::send_at_last(std::uint64_t id) {
  for (bool sent = false; !sent;) {
    const std::uint64_t asked = monotonic_ns();
    sent = judge(id, patiently(part_, [&](Deadline deadline) { return send_by(id, deadline); }),
                 asked);
  }
}

void Sender::await_oldest() {
  const Unsent& oldest = unsent_.front();
  const std::uint64_t asked = monotonic_ns();
  const auto sent =
      patiently(part_, [&](Deadline deadline) { return producer_->wait(oldest.ticket, deadline); });
  judge(oldest.id, sent, asked);
  unsent_.pop_front();
}

// Half of it lies where nobody can read: the engine finds out when it gets there.
void Sender::send_unreadable(std::uint64_t id) {
  const Bytes size = Bytes{128} << 10;
  void* const at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) give_up("mmap");
  ::mprotect(static_cast<std::byte*>(at) + size / 2, size / 2, PROT_NONE);
  const ConstByteSpan payload(static_cast<std::byte*>(at), size);
  const std::uint64_t asked = monotonic_ns();
  const auto sent =
      patiently(part_, [&](Deadline deadline) { return producer_->send(payload, deadline); });
  ::munmap(at, size);
  if (sent) give_up("what cannot be read was sent");
  if (sent.error().code != Code::invalid_argument) judge(id, sent, asked);
}

bool Sender::judge(std::uint64_t id, const Result<void>& sent, std::uint64_t asked_ns) {
  if (sent) {
    if (part_.is_victim) part_.board.victim_sent.store(id, std::memory_order_release);
    return true;
  }
  if (sent.error().code != Code::peer_gone) give_up(fmt::format("sending {}", id), sent.error());
  note_gone(part_, asked_ns);
  await_consumers(1);
  return false;
}

Result<void> Sender::send_by(std::uint64_t id, Deadline deadline) {
  const SendOptions options{.deadline = deadline};
  const Bytes size = payload_bytes(part_.scenario, id);
  switch (part_.scenario.via) {
    case Via::loan: {
      GANTRY_ASSIGN(Loan loan, producer_->loan(size, deadline));
      fill_payload(loan.bytes(), id);
      return producer_->publish(std::move(loan), options);
    }
    case Via::move: {
      GANTRY_ASSIGN(Block block, producer_->pool().allocate(size));
      fill_payload(block.bytes(), id);
      return producer_->send(std::move(block), options);
    }
    case Via::parts:
      return send_parts(id, options);
    case Via::forward:
      return send_forwarded(id, options);
    case Via::send:
    case Via::async:
      break;
  }
  return producer_->send(payload_of(id), options);
}

// Copied, moved, copied: with a tensor that covers the first.
Result<void> Sender::send_parts(std::uint64_t id, const SendOptions& options) {
  const auto payload = payload_of(id);
  const Bytes third = payload.size() / 24 * 8;
  const ConstByteSpan all(payload);
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(third)};
  GANTRY_ASSIGN(Block block, producer_->pool().allocate(third));
  std::memcpy(block.bytes().data(), all.data() + third, third);
  Draft draft;
  draft.copy(all.first(third), Tensor::dense(DataType{}, shape))
      .move(std::move(block))
      .copy(all.subspan(2 * third));
  return producer_->send(std::move(draft), options);
}

Result<void> Sender::send_forwarded(std::uint64_t id, const SendOptions& options) {
  const Deadline end = Deadline::after(std::chrono::seconds(20));
  GANTRY_TRY(upstream_->out->send(payload_of(id), end));
  GANTRY_ASSIGN(Message message, upstream_->in->receive(end));
  Draft draft;
  draft.forward(std::move(message));
  return producer_->send(std::move(draft), options);
}

// ---- roles ---------------------------------------------------------------------------------

namespace {

// A backlog is there before anyone joins; the consumer that waits behind the gate is let go then.
void first_burst(const Part& part, Sender& sender) {
  std::uint64_t first = 1;
  if (part.scenario.backlog) {
    sender.burst(1, kEarlyMessages);
    first += kEarlyMessages;
    if (::write(part.gate, "x", 1) != 1) give_up("the gate");
  }
  sender.await_consumers(part.scenario.consumers);
  sender.burst(first, kBurst + 1 - first);
  if (part.scenario.lags && ::write(part.gate, "x", 1) != 1) give_up("the gate");
}

void second_burst(const Part& part, Sender& sender, unsigned consumers) {
  // A victim that is dead may still count: the successor itself says when it is in its place.
  if (part.joined >= 0) await_readable(part.joined);
  sender.await_consumers(consumers);
  sender.burst(kSecondBurst, kBurst);
  if (!sender.close()) give_up(fmt::format("{}: the successor did not take everything", part.who));
}

}  // namespace

void run_victim_producer(const Part& part) {
  Sender sender(part);
  first_burst(part, sender);
  if (!sender.close() && !part.may_stop) give_up("nobody takes everything");
}

void run_successor_producer(const Part& part) {
  if (part.board.victim_finished) return;
  Sender sender(part);
  second_burst(part, sender, part.scenario.consumers);
}

void run_surviving_producer(const Part& part) {
  {
    Sender sender(part);
    first_burst(part, sender);
    if (await_victim(part, part.report)) return second_burst(part, sender, part.scenario.consumers);
    part.board.opens_again = true;
    sender.close();
  }
  await_victim(part);
  if (part.board.victim_finished) return;
  Sender again(part);
  second_burst(part, again, 1);
}

}  // namespace gantry::fault
