// accepted: what somebody who has read the README writes first, with the one header
#include <gantry/gantry.hpp>

using namespace gantry;  // NOLINT: a case, not a header
using namespace std::chrono_literals;
Result<void> send_some(Runtime& runtime, std::span<const float> values, const std::string& text) {
  Producer out = runtime.producer("frames", {{.spin = 0ns}, {.slots = 4}}).value();
  if (auto sent = out.send(std::as_bytes(values)); !sent) return sent;
  if (auto sent = out.send(std::as_bytes(std::span(text)), Deadline::after(1s)); !sent) return sent;
  if (auto sent = out.send(std::as_bytes(values), {.type = 7, .user = 1}); !sent) return sent;
  // a chain of parts, one of them memory of the channel's pool
  Pool pool = out.pool();
  Block block = pool.allocate(1000).value();
  if (auto sent = out.send(Draft().move(std::move(block)).copy(std::as_bytes(values))); !sent)
    return sent;
  Draft draft = Draft().copy(std::as_bytes(values));
  draft.copy(std::as_bytes(std::span(text)));
  if (auto sent = out.send(std::move(draft)); !sent) return sent;
  // a container in that memory
  PoolResource resource(pool);
  std::pmr::vector<float> filled(100, 1.0f, &resource);
  Block its = pool.find(std::as_bytes(std::span(filled)).data()).value();
  if (auto sent = out.send(Draft().move(std::move(its), filled.size() * sizeof(float))); !sent)
    return sent;
  std::vector<float, PoolAllocator<float>> others{PoolAllocator<float>(pool)};
  // behind the caller
  const std::vector<std::byte> bytes(1000);
  Ticket ticket = out.send_async(bytes).value();
  if (auto sent = out.wait(ticket); !sent) return sent;
  ticket = out.send_async(Draft().copy(bytes)).value();
  return out.close(Deadline::after(5s));
}
Result<Bytes> receive_all(Runtime& runtime) {
  Consumer in =
      runtime.consumer("frames", {{}, SlowConsumer::drop_oldest}, Deadline::after(1s)).value();
  Bytes sum = 0;
  Result<Message> message = in.receive();
  for (; message; message = in.receive(Deadline::after(100ms))) sum += message->bytes().size();
  if (message.error().code != Code::closed) return tl::unexpected(message.error());
  return sum;
}
Result<Bytes> call(Runtime& runtime, std::span<const float> values) {
  Client client = runtime.client("sum").value();
  auto reply = client.call(std::as_bytes(values), {.deadline = Deadline::after(1s)});
  if (!reply) return tl::unexpected(reply.error());
  return reply->bytes().size();
}
