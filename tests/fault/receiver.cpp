#include "fault/receiver.hpp"

#include <thread>

#include "core/base/clock.hpp"
#include "fault/payload.hpp"

namespace gantry::fault {
namespace {

bool is_lossy(const Part& part) {
  return part.scenario.is_lossy() && part.who != kOther;
}

// Whatever it misses, the newest comes.
bool finds_newest(const Part& part) {
  return !is_lossy(part) || part.scenario.policy == SlowConsumer::drop_oldest;
}

ConsumerOptions receiving_options(const Part& part) {
  ConsumerOptions options;
  options.directory = part.directory;
  options.spin = std::chrono::nanoseconds(0);
  if (is_lossy(part)) {
    options.when_slow = part.scenario.policy;
    options.depth = part.scenario.depth;
  }
  return options;
}

std::uint64_t number_of(const Part& part, ConstByteSpan bytes) {
  const std::uint64_t id =
      part.scenario.widened ? read_payload(narrowed(bytes)) : read_payload(bytes);
  if (id == 0) give_up(fmt::format("a message of {} bytes is not whole", bytes.size()));
  return id;
}

}  // namespace

Receiver::Receiver(const Part& part) : part_(part) {
  if (part.scenario.take == Take::copied)
    buffer_.resize((part.scenario.widened ? 4 : 2) * part.scenario.bytes);
  join();
}

// The pause lets the producer see the hang-up first, in most runs.
Receiver::~Receiver() {
  if (!part_.scenario.outlives) return;
  consumer_.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// A join that is given up because the producer is stopped may still count as a consumer there for a
// moment; then the stream can be over before this one comes, or there is no place left until the
// producer has seen that the first one hung up.
void Receiver::join() {
  const Deadline end = Deadline::after(std::chrono::seconds(20));
  for (bool has_given_up = false;;) {
    auto joined = Consumer::open("frames", receiving_options(part_), limit(part_));
    if (joined) {
      consumer_.emplace(std::move(*joined));
      return;
    }
    if (part_.may_stop && !part_.is_victim && part_.board.victim_finished) return;
    const Code code = joined.error().code;
    const bool is_late = is_only_stopped(part_, joined.error());
    const bool again = part_.may_stop && (code == Code::peer_gone || is_late ||
                                          (has_given_up && code == Code::already_exists));
    has_given_up |= is_late;
    if (!again || end.passed()) give_up("joining", joined.error());
  }
}

void Receiver::rejoin() {
  const auto joined =
      patiently(part_, [&](Deadline deadline) { return consumer_->rejoin(deadline); });
  if (!joined) give_up("joining again", joined.error());
}

Result<std::uint64_t> Receiver::take() {
  if (part_.scenario.take == Take::early) return take_early();
  if (part_.scenario.take == Take::copied) return take_copied();
  if (part_.scenario.take == Take::looked) return take_looked();
  held_ = Message();
  GANTRY_ASSIGN(Message message,
                patiently(part_, [&](Deadline deadline) { return consumer_->receive(deadline); }));
  if (message.segments() == 1) {
    const std::uint64_t number = number_of(part_, message.bytes());
    if (part_.scenario.outlives) held_ = std::move(message);
    return number;
  }
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < message.segments(); ++i) {
    const ConstByteSpan bytes = message.segment(i).bytes;
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return number_of(part_, all);
}

Result<std::uint64_t> Receiver::take_early() {
  GANTRY_ASSIGN(Incoming incoming, patiently(part_, [&](Deadline deadline) {
                  return consumer_->receive_early(deadline);
                }));
  std::vector<std::byte> all;
  for (;;) {
    const auto chunk = patiently(part_, [&](Deadline deadline) { return incoming.next(deadline); });
    if (!chunk && chunk.error().code == Code::aborted) return 0;
    if (!chunk) return tl::unexpected(chunk.error());
    if (chunk->empty()) return number_of(part_, all);
    all.insert(all.end(), chunk->begin(), chunk->end());
  }
}

Result<std::uint64_t> Receiver::take_copied() {
  GANTRY_ASSIGN(const Consumer::Copied copied, patiently(part_, [&](Deadline deadline) {
                  return consumer_->receive_into(buffer_, deadline);
                }));
  return number_of(part_, ConstByteSpan(buffer_).first(copied.bytes));
}

Result<std::uint64_t> Receiver::take_looked() {
  std::uint64_t number = 0;
  GANTRY_TRY(patiently(part_, [&](Deadline deadline) {
    return consumer_->look(
        [&](const Message& message) { number = number_of(part_, message.bytes()); }, deadline);
  }));
  return number;
}

// Order, nothing twice. In between nothing is missing but what was never sent: where somebody else
// was stopped, or came and went, that is not known here.
void Receiver::accept(std::uint64_t id) {
  if (id == 0) return;
  if (id <= last_) give_up(fmt::format("message {} after {}", id, last_));
  const std::uint64_t bit = id < 64 ? std::uint64_t{1} << id : 0;
  if (part_.is_victim)
    part_.board.victim_received.fetch_or(bit);
  else if (part_.who == "successor" && part_.scenario.consumers == 1 &&
           (part_.board.victim_received.load() & bit) != 0)
    give_up(fmt::format("message {} was in the victim's hand and came again", id));
  if (id >= kSecondBurst) {
    if (!part_.may_stop && !part_.scenario.gives_up && !is_lossy(part_) &&
        id != kSecondBurst + second_burst_)
      give_up(fmt::format("message {}: one before it is missing", id));
    ++second_burst_;
  }
  last_ = id;
  if (id == kBurst || !finds_newest(part_)) report();
}

// The first burst is over for it, as far as it can know.
void Receiver::report() {
  if (part_.is_victim && part_.report >= 0 && ::write(part_.report, "x", 1) != 1)
    give_up("the report");
}

Code Receiver::drain() {
  while (consumer_) {
    const std::uint64_t asked = monotonic_ns();
    const auto id = take();
    if (id) {
      accept(*id);
      continue;
    }
    const Code code = id.error().code;
    if (code != Code::closed && code != Code::peer_gone) give_up("receiving", id.error());
    if (code == Code::peer_gone && !part_.is_victim) note_gone(part_, asked);
    return code;
  }
  return Code::closed;
}

// ---- roles ---------------------------------------------------------------------------------

namespace {

void await_gate(const Part& part) {
  if (part.scenario.backlog) static_cast<void>(await_victim(part, part.gate));
}

void await_burst(const Part& part) {
  if (part.scenario.lags) static_cast<void>(await_victim(part, part.gate));
}

std::uint64_t expected(const Scenario& scenario) {
  std::uint64_t count = 0;
  for (std::uint64_t id = kSecondBurst; id < kSecondBurst + kBurst; ++id)
    count += is_given_up(scenario, id) ? 0 : 1;
  return count;
}

std::uint64_t last_expected(const Scenario& scenario) {
  std::uint64_t last = kSecondBurst + kBurst - 1;
  while (is_given_up(scenario, last)) --last;
  return last;
}

void check_second_burst(const Part& part, const Receiver& receiver) {
  const std::uint64_t all = expected(part.scenario);
  if (finds_newest(part) && receiver.last() != last_expected(part.scenario))
    give_up(fmt::format("{} is the last that came", receiver.last()));
  if (!is_lossy(part) && receiver.second_burst() != all)
    give_up(fmt::format("{} of {} messages of the second burst", receiver.second_burst(), all));
}

}  // namespace

void run_victim_consumer(const Part& part) {
  await_gate(part);
  Receiver receiver(part);
  await_burst(part);
  if (receiver.drain() != Code::closed) give_up("the producer is gone");
}

// One that comes while the old stream is being closed hears of its end, after what the victim left
// unread: it comes again. A stream that lost its messages would have it come until its time is up.
void run_successor_consumer(const Part& part) {
  if (part.board.victim_finished) return;
  for (bool first = true;; first = false) {
    Receiver receiver(part);
    if (first && ::write(part.joined, "x", 1) != 1) give_up("saying that it joined");
    if (receiver.drain() != Code::closed) give_up("the producer is gone");
    if (part.board.opens_again && receiver.last() < kSecondBurst) continue;
    return check_second_burst(part, receiver);
  }
}

void run_surviving_consumer(const Part& part) {
  if (part.who == "survivor") await_gate(part);
  Receiver receiver(part);
  if (part.who == "survivor") await_burst(part);
  const Code first = receiver.drain();
  const std::uint64_t sent = part.board.victim_sent.load(std::memory_order_acquire);
  if (receiver.last() < kSecondBurst) {
    // One that was landing when its sender died had taken the place of others.
    const bool finds_last =
        !is_lossy(part) || (finds_newest(part) && part.scenario.mode == SendMode::whole);
    if (!part.may_stop && finds_last && receiver.last() < sent)
      give_up(fmt::format("message {} was sent, {} is the last that came", sent, receiver.last()));
    if (part.may_stop && first != Code::closed) give_up("a stopped producer was taken for dead");
    await_victim(part);
    if (part.board.victim_finished) return;
    receiver.rejoin();
    if (receiver.drain() != Code::closed) give_up("the successor is gone");
  }
  check_second_burst(part, receiver);
}

void run_other_consumer(const Part& part) {
  Receiver receiver(part);
  if (receiver.drain() != Code::closed) give_up("the producer is gone");
  const std::uint64_t sent = receiver.second_burst();
  if (sent != 0) check_second_burst(part, receiver);
}

}  // namespace gantry::fault
