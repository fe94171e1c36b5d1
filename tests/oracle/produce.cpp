// A producer, of a channel or at an inbox: sends in every way that there is.
#include <fmt/format.h>
#include <deque>

#include "oracle/part.hpp"
#include "oracle/sending.hpp"

namespace gantry::oracle {

std::uint64_t user_word(Id id) noexcept {
  return fault::payload_word(id.pack(), 7);
}

namespace {

std::vector<std::byte> payload_of(Id id, Bytes size) {
  std::vector<std::byte> bytes(size);
  fill(bytes, id);
  return bytes;
}

class Sender {
 public:
  explicit Sender(Part& part) : part_(part), opened_(open_producer(part)) {}

  void run() {
    if (!opened_) return;
    const unsigned count = part_.role.messages;
    const unsigned early = static_cast<unsigned>(part_.dice.up_to(count));
    for (unsigned number = 0; number < count && patience_ > 0; ++number) {
      if (number >= early / 2 && forked_ < part_.role.forks && unsent_.empty()) copy_process();
      send_one({part_.role.stream, part_.life, number});
    }
    while (!unsent_.empty()) await_oldest();
    end();
  }

 private:
  struct Unsent {
    Id id;
    Ticket ticket;
    std::vector<std::byte> payload;
  };

  Producer& producer() { return *opened_; }

  // The copy of the process drops its handle while this one goes on, and may try to send.
  void copy_process() {
    ++forked_;
    fork_copy(part_, [this](Dice& dice) {
      if (dice.chance(30) && producer().send(payload_of({}, 100), Deadline::after(kLook)))
        give_up("send() in a copy of the process said success");
      opened_.reset();
    });
  }

  void send_one(Id id) {
    const bool hurried = part_.dice.chance(part_.role.hurried);
    SendOptions options;
    options.type = id.pack();
    options.user = user_word(id);
    if (part_.scenario.is_streamed_mostly && part_.dice.chance(80))
      options.mode = SendMode::streamed;
    else if (part_.dice.chance(30))
      options.mode = part_.dice.any_of({SendMode::whole, SendMode::pipelined, SendMode::streamed});
    // Of dice of its own, so that the rest of a seed's scenario stays as it was.
    const bool immutable = Dice(part_.scenario.seed, 77, id.pack()).chance(5);
    if (immutable) options.mode = SendMode::immutable;
    part_.board.fate(id).store(Fate::attempted, std::memory_order_release);
    if (part_.dice.chance(20)) return send_async(id, options, hurried);
    const std::chrono::nanoseconds time =
        hurried ? std::chrono::microseconds(part_.dice.up_to(2000)) : patience();
    judge(id, hurried, part_.timed("send()", time, [&](Deadline deadline) {
      options.deadline = deadline;
      return send_by(id, options);
    }));
  }
  [[nodiscard]] std::chrono::nanoseconds patience() const {
    return part_.scenario.is_starved() ? std::chrono::milliseconds(1000) : kPatience;
  }

  Result<void> send_by(Id id, const SendOptions& options) {
    const Bytes size = part_.scenario.size_of(id);
    const std::uint64_t rare = Dice(part_.scenario.seed, 78, id.pack()).up_to(9);  // as `immutable`
    if (rare == 0 && size > 0 && options.mode != SendMode::immutable)
      return send_early(id, size, options);
    if (rare == 1) return send_in_batch(id, size, options);
    const std::uint64_t way = size == 0 ? 0 : part_.dice.up_to(4);
    switch (options.mode == SendMode::immutable ? 0 : way) {
      case 1: {
        auto loan = producer().loan(size, options.deadline);
        if (!loan) return tl::unexpected(loan.error());
        fill(loan->bytes(), id);
        return producer().publish(std::move(*loan), options);
      }
      case 2: {
        auto block = producer().pool().allocate(size);
        if (!block) return tl::unexpected(block.error());
        fill(block->bytes(), id);
        return producer().send(std::move(*block), options);
      }
      case 3:
        return send_parts(id, size, options);
      default:
        break;
    }
    return producer().send(payload_of(id, size), options);
  }

  // Filled while readers may see it.
  Result<void> send_early(Id id, Bytes size, const SendOptions& options) {
    auto block = producer().pool().allocate(size);
    if (!block) return tl::unexpected(block.error());
    const auto payload = payload_of(id, size);
    auto outgoing = producer().send_early(Draft().move(block->share()), options);
    if (!outgoing) return tl::unexpected(outgoing.error());
    for (Bytes at = 0; at < size;) {
      const Bytes some = part_.dice.between(1, size - at);
      std::memcpy(block->bytes().data() + at, payload.data() + at, some);
      at += some;
      if (auto landed = outgoing->land(at); !landed) return landed;
    }
    return {};
  }

  // Of one, since all of a batch have the same options, and these say who they are.
  Result<void> send_in_batch(Id id, Bytes size, const SendOptions& options) {
    const auto payload = payload_of(id, size);
    const std::array<ConstByteSpan, 1> batch{payload};
    const auto sent = producer().send_batch(batch, options);
    if (!sent) return tl::unexpected(sent.error());
    if (*sent != 1) give_up(fmt::format("send_batch() of 1 says {}", *sent));
    return {};
  }

  // Cut at random places; each part copied or moved, with a tensor or without.
  Result<void> send_parts(Id id, Bytes size, const SendOptions& options) {
    const auto payload = payload_of(id, size);
    Draft draft;
    for (Bytes at = 0; at < size;) {
      const Bytes rest = size - at;
      const Bytes some = draft.parts().size() < 6 ? part_.dice.between(1, rest) : rest;
      const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(some)};
      std::optional<Tensor> tensor;
      if (part_.dice.chance(30)) tensor = Tensor::dense(DataType{}, shape);
      const ConstByteSpan bytes = ConstByteSpan(payload).subspan(at, some);
      if (part_.dice.chance(50)) {
        draft.copy(bytes, tensor);
      } else {
        auto block = producer().pool().allocate(some);
        if (!block) return tl::unexpected(block.error());
        std::memcpy(block->bytes().data(), bytes.data(), some);
        draft.move(std::move(*block), tensor);
      }
      at += some;
    }
    return producer().send(std::move(draft), options);
  }

  void send_async(Id id, SendOptions options, bool hurried) {
    if (hurried) options.deadline = Deadline::after(std::chrono::microseconds(500));
    auto payload = payload_of(id, part_.scenario.size_of(id));
    auto ticket = producer().send_async(payload, options);
    while (!ticket && ticket.error().code == Code::busy && !unsent_.empty()) {
      await_oldest();
      ticket = producer().send_async(payload, options);
    }
    if (!ticket) return judge(id, hurried, tl::unexpected(ticket.error()));
    unsent_.push_back({id, *ticket, std::move(payload)});
    while (unsent_.size() > part_.dice.up_to(6)) await_oldest();
  }
  void await_oldest() {
    const Unsent& oldest = unsent_.front();
    const auto sent = part_.timed("wait() for a ticket", kPatience, [&](Deadline deadline) {
      return producer().wait(oldest.ticket, deadline);
    });
    if (producer().outcome(oldest.ticket) == Outcome::pending)
      give_up(fmt::format("send_async() of {} does not end", to_string(oldest.id)));
    judge(oldest.id, true, sent);
    unsent_.pop_front();
  }

  void judge(Id id, bool hurried, const Result<void>& sent) {
    part_.board.fate(id).store(sent ? Fate::sent : Fate::refused, std::memory_order_release);
    if (sent) return;
    const Error& error = sent.error();
    if (error.code == Code::peer_gone) return await_consumer(part_, producer());
    if (part_.is_starvation(error)) {
      if (error.code != Code::out_of_memory && error.code != Code::too_large) --patience_;
      return;
    }
    if (error.code != Code::timed_out || !hurried)
      give_up(fmt::format("sending {}", to_string(id)), error);
  }

  void end() {
    if (part_.role.drops_handle && !part_.is_last_life()) {
      part_.desk().will_come_again = true;
      return opened_.reset();
    }
    if (close_producer(part_, producer()))
      part_.board.closed({part_.role.stream, part_.life, 0}) = true;
    opened_.reset();
  }

  Part& part_;
  std::optional<Producer> opened_;
  std::deque<Unsent> unsent_;
  unsigned forked_ = 0;
  int patience_ = 3;  // with peers that lack descriptors or memory
};

}  // namespace

// A predecessor that was killed may still count as alive for a moment.
std::optional<Producer> open_producer(Part& part) {
  const char* const name = kChannelNames[part.role.play == Play::relay ? 1 : 0];
  const Deadline end = Deadline::after(part.scenario.is_starved() ? std::chrono::seconds(1)
                                                                  : std::chrono::seconds(20));
  for (;;) {
    auto opened = part.timed("opening a producer", kLook, [&](Deadline deadline) {
      return part.role.play == Play::deliver
                 ? part.runtime.connect(name, part.producer_options(), deadline)
                 : part.runtime.producer(name, part.producer_options());
    });
    if (opened) return std::move(*opened);
    const Code code = opened.error().code;
    const bool again = code == Code::already_exists || code == Code::timed_out ||
                       code == Code::busy || code == Code::peer_gone ||
                       part.is_starvation(opened.error());
    if (again && part.scenario.is_starved() && end.passed()) return std::nullopt;
    if (!again || end.passed()) give_up("opening a producer", opened.error());
    sleep_us(500);
  }
}

void await_consumer(Part& part, Producer& producer) {
  const Deadline end =
      Deadline::after(part.scenario.is_starved() ? std::chrono::milliseconds(1000) : kPatience);
  for (;;) {
    const auto there = part.timed("wait_for_consumer()", kLook, [&](Deadline deadline) {
      return producer.wait_for_consumer(deadline);
    });
    if (there || (part.scenario.is_starved() && end.passed())) return;
    if (end.passed()) give_up("no consumer comes", there.error());
  }
}

bool close_producer(Part& part, Producer& producer) {
  const Deadline end = Deadline::after(kPatience);
  for (;;) {
    const std::chrono::nanoseconds time =
        part.scenario.is_starved() ? std::chrono::milliseconds(1000) : kPatience;
    const auto closed =
        part.timed("close()", time, [&](Deadline deadline) { return producer.close(deadline); });
    if (closed) return true;
    if (part.is_starvation(closed.error())) return false;
    if (closed.error().code != Code::peer_gone || end.passed()) give_up("close()", closed.error());
    await_consumer(part, producer);
  }
}

void produce(Part& part) {
  Sender(part).run();
}

}  // namespace gantry::oracle
