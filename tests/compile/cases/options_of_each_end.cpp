// accepted: each end says what it knows of, and several the same of what all ends know
#include <gantry/runtime.hpp>

using namespace gantry;  // NOLINT: a case, not a header
Result<void> open_all(Runtime& runtime) {
  EndOptions shared;
  shared.spin = std::chrono::nanoseconds(0);
  shared.access.token = "open sesame";
  ProducerOptions sending{shared, {.bytes_in_flight = 1 << 20}};
  sending.slots = ProducerOptions::kMaxSlots;
  sending.consumers = 2;
  ConsumerOptions receiving{shared};
  receiving.when_slow = SlowConsumer::drop_oldest;
  receiving.depth = 2;
  const Producer out = runtime.producer("frames", sending).value();
  const Consumer in = runtime.consumer("frames", receiving).value();
  const Consumer other = runtime.consumer("frames", {shared}).value();
  const Inbox inbox = runtime.inbox("letters", {.channel = {shared}}).value();
  const Producer sender = runtime.connect("letters", sending).value();
  const Server server =
      runtime.server("calls", {.channel = {shared}, .replies = {.slots = 2}}).value();
  ClientOptions asking{shared, {.slots = 2}};
  asking.receive.slabs = 4;
  const Client client = runtime.client("calls", asking).value();
  return {};
}
