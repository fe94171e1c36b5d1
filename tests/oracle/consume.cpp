// Consumers, inboxes, and relays that pass on what they receive.
#include "oracle/receiving.hpp"
#include "oracle/sending.hpp"

namespace gantry::oracle {
namespace {

// Its senders end; it does not.
bool inbox_is_done(Part& part, const Receiver& receiver) {
  return part.role.play == Play::inbox && receiver.is_idle() && part.is_over(part.role.channel);
}

void read_session(Part& part, Receiver& receiver) {
  while (receiver.take()) {
    if (inbox_is_done(part, receiver)) return receiver.leave();
    if (part.role.lags_us != 0) sleep_us(part.dice.up_to(part.role.lags_us));
    if (!receiver.is_idle() && part.dice.up_to(999) < part.role.leaves) return receiver.leave();
  }
}

/// Forwards so many messages. False: upstream nothing comes any more.
bool pass_on(Part& part, Receiver& receiver, Producer& down, unsigned count) {
  for (unsigned passed = 0; passed < count;) {
    auto message = receiver.receive();
    if (receiver.has_ended() && !receiver.join()) return false;
    if (!message) continue;
    ++passed;
    SendOptions options;
    options.type = message->info().type;
    options.user = message->info().user;
    Draft draft;
    draft.forward(std::move(*message));
    const auto sent = part.timed("passing a message on", kPatience, [&](Deadline deadline) {
      options.deadline = deadline;
      return down.send(std::move(draft), options);
    });
    if (sent || part.is_starvation(sent.error())) continue;
    if (sent.error().code != Code::peer_gone) give_up("passing a message on", sent.error());
    await_consumer(part, down);
  }
  return true;
}

}  // namespace

void consume(Part& part) {
  Receiver receiver(part);
  while (receiver.join()) {
    read_session(part, receiver);
    if (part.role.play == Play::inbox && part.is_over(part.role.channel)) break;
    if (part.dice.chance(20)) sleep_us(part.dice.up_to(3000));
  }
  if (part.dice.chance(30)) sleep_us(part.dice.up_to(20'000));
  receiver.release_beyond(0);
}

void relay(Part& part) {
  Receiver receiver(part);
  auto down = open_producer(part);
  if (!down || !receiver.join()) return;
  const bool last = part.is_last_life();
  const bool more = pass_on(part, receiver, *down, last ? ~0u : part.role.messages);
  part.desk().will_come_again = more && !last;
  close_producer(part, *down);
  if (!receiver.has_ended()) receiver.leave();
}

}  // namespace gantry::oracle
