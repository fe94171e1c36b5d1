#include "fault/post.hpp"

#include "core/base/clock.hpp"
#include "core/base/event.hpp"
#include "fault/awaiting.hpp"
#include "fault/census.hpp"
#include "fault/payload.hpp"
#include "fault/sender.hpp"

namespace gantry::fault {

Post::Post(const Part& part, std::string_view name) : part_(part) {
  for (std::uint64_t sender = kVictimSender; sender <= kThirdSender; ++sender) of_[sender];
  auto event = make_event();
  if (!event) give_up("an event", event.error());
  departure_ = std::move(*event);
  InboxOptions options;
  options.channel.directory = part.directory;
  options.channel.spin = std::chrono::nanoseconds(0);
  options.channel.interrupt_descriptor = departure_.get();
  options.on_departure = [this](const Departure& one) {
    departures_.push_back(one);
    ring(departure_.get());
    if (loop_ != nullptr) loop_->stop();
  };
  auto opened = Inbox::open(name, options);
  if (!opened) give_up("opening an inbox", opened.error());
  inbox_.emplace(std::move(*opened));
}

Result<Inbox::Delivery> Post::receive() {
  if (part_.scenario.awaits) return await();
  return patiently(part_, [&](Deadline deadline) { return inbox_->receive(deadline); });
}

Result<Inbox::Delivery> Post::await() {
  Awaiting awaiting(part_);
  std::optional<Result<Inbox::Delivery>> got;
  loop_ = &awaiting.loop();
  loop_->spawn(await_next(*inbox_, *loop_, got));
  awaiting.run();
  loop_ = nullptr;
  if (got) return std::move(*got);
  return fail(Code::interrupted, "somebody departed");
}

void Post::take() {
  asked_ns_ = monotonic_ns();
  auto got = receive();
  if (got)
    accept(*got);
  else if (got.error().code == Code::interrupted)
    drain(departure_.get());
  else
    give_up("receiving", got.error());
  for (const Departure& one : std::exchange(departures_, {})) judge(one);
}

void Post::take_all() {
  while (const auto got = inbox_->receive(Deadline::now())) accept(*got);
}

void Post::accept(const Inbox::Delivery& delivery) {
  const std::uint64_t number = read_payload(delivery.message.bytes());
  const std::uint64_t sender = sender_of(number);
  const std::uint64_t id = id_of(number);
  if (number == 0 || !of_.contains(sender))
    give_up(fmt::format("a message of {} bytes is not whole", delivery.message.bytes().size()));
  const auto [known, is_new] = sender_of_.emplace(delivery.sender.id, sender);
  if (known->second != sender) give_up("a message came by another's way");
  check_order(sender, id);
  note_received(part_, sender, id);
  Received& received = of_[sender];
  received.last = id;
  if (id >= kSecondBurst) ++received.second_burst;
}

// Nothing twice, nothing missing; where a successor begins depends on its predecessor.
void Post::check_order(std::uint64_t sender, std::uint64_t id) const {
  const std::uint64_t last = of_.at(sender).last;
  const bool begins = last == 0 && (id == 1 || id == kSecondBurst || part_.who == "successor");
  const std::uint64_t next = last == kBurst ? kSecondBurst : last + 1;
  if (!begins && (last == 0 || id != next))
    give_up(fmt::format("message {} of {} after {}", id, sender, last));
}

void Post::judge(const Departure& departure) {
  const bool is_victims = part_.victim_pid != 0 && departure.sender.pid == part_.victim_pid;
  const Code why = departure.why.code;
  if (is_victims && why == Code::peer_gone && !part_.may_stop) {
    note_gone(part_, asked_ns_);
  } else if (why != Code::closed) {
    // Who does not wait for one that is stopped comes again.
    const bool gave_up = part_.may_stop && !sender_of_.contains(departure.sender.id);
    if (!gave_up) give_up("a sender departed", departure.why);
  }
  if (is_victims && last(kVictimSender) < part_.board.victim_sent.load(std::memory_order_acquire))
    give_up(fmt::format("the victim sent {}, {} came", part_.board.victim_sent.load(),
                        last(kVictimSender)));
}

// ---- roles: the inbox is the victim --------------------------------------------------------

void run_victim_inbox(const Part& part) {
  Post post(part);
  while (post.last(kOtherSender) < kBurst || post.last(kThirdSender) < kBurst) post.take();
  if (::write(part.report, "x", 1) != 1) give_up("the report");
  while (!post.is_empty()) post.take();
}

void run_successor_inbox(const Part& part) {
  if (part.board.victim_finished) return;
  Post post(part);
  while (!post.has_second_burst(kOtherSender) || !post.has_second_burst(kThirdSender) ||
         !post.is_empty())
    post.take();
}

// What it sends while the victim is there may be for the successor; closed, its stream was received
// to its end by either.
void run_posting_survivor(const Part& part) {
  {
    Sender sender(part);
    sender.burst(1, kBurst);
    const bool is_dead = await_victim(part, part.report);
    if (is_dead) sender.burst(kSecondBurst, kBurst);
    sender.close_at_last();
    if (is_dead) return;
  }
  await_victim(part);
  if (part.board.victim_finished) return;
  Sender again(part);
  again.burst(kSecondBurst, kBurst);
  again.close_at_last();
}

// ---- roles: one of two producers is --------------------------------------------------------

void run_surviving_inbox(const Part& part) {
  const Census idle = [&part] {
    const Post nobody_comes(part, "idle");
    return take_census(part.directory);
  }();
  Post post(part);
  const auto is_complete = [&] {
    return post.has_second_burst(kOtherSender) &&
           (part.board.victim_finished || post.has_second_burst(kThirdSender)) && post.is_empty();
  };
  while (!is_complete()) post.take();
  if (part.board.victim_finished && post.last(kVictimSender) != kBurst)
    give_up(fmt::format("{} is the last that came of the victim", post.last(kVictimSender)));
  check_census(part.directory, idle, [&post] { post.take_all(); });
}

void run_victim_at_inbox(const Part& part) {
  Sender sender(part);
  sender.burst(1, kBurst);
  sender.close_at_last();
}

void run_other_at_inbox(const Part& part) {
  Sender sender(part);
  sender.burst(1, kBurst);
  await_victim(part);
  sender.burst(kSecondBurst, kBurst);
  sender.close_at_last();
}

void run_successor_at_inbox(const Part& part) {
  if (part.board.victim_finished) return;
  Sender sender(part);
  sender.burst(kSecondBurst, kBurst);
  sender.close_at_last();
}

}  // namespace gantry::fault
