#include "attack/worlds.hpp"

#include <gantry/call.hpp>

#include "attack/honest.hpp"

namespace gantry::attack {

using test::pattern;
using test::soon;

std::unique_ptr<World> make_world(Target target, const ProducerOptions& options) {
  if (target == Target::producer) return make_producer_world(options);
  if (target == Target::inbox) return make_inbox_world(options);
  return make_server_world(options);
}

void be_honest(Target target, const ProducerOptions& options, const test::Child& child) {
  std::optional<Consumer> consumer;
  std::optional<Producer> sender;
  std::optional<Client> client;
  std::optional<PendingReply> pending;
  if (target == Target::producer) {
    consumer.emplace(*Consumer::open("frames", test::consumer_options(options), soon()));
  } else if (target == Target::inbox) {
    sender.emplace(*Producer::connect("frames", options, engine(), soon()));
    static_cast<void>(sender->send(pattern(8, 1), soon()));
  } else {
    client.emplace(*Client::connect("frames", test::client_options(options), engine(), soon()));
    pending.emplace(*client->call_async(pattern(8, 1), {.deadline = soon()}));
  }
  child.report();
  test::Child::hold();
}

}  // namespace gantry::attack
