#include "options.hpp"

namespace gantry::c {

static_assert(GANTRY_SLOW_BLOCK == static_cast<int>(SlowConsumer::block) &&
              GANTRY_SLOW_DROP_NEWEST == static_cast<int>(SlowConsumer::drop_newest) &&
              GANTRY_SLOW_DISCONNECT == static_cast<int>(SlowConsumer::disconnect) &&
              GANTRY_SLOW_DROP_OLDEST == static_cast<int>(SlowConsumer::drop_oldest));

namespace {

Result<void> set_spin(EndOptions& end, std::int64_t spin_ns) {
  if (spin_ns < -1)
    return fail(Code::invalid_argument,
                "spin_ns is " + std::to_string(spin_ns) + ", which is no time", "-1 never polls");
  if (spin_ns != 0) end.spin = std::chrono::nanoseconds(spin_ns == -1 ? 0 : spin_ns);
  return {};
}

Result<void> set_payload(PayloadOptions& payload, const gantry_producer_options& given) {
  GANTRY_C_ASSIGN(payload.mode, mode_of(given.mode));
  if (given.slots != 0) payload.slots = given.slots;
  payload.bytes_in_flight = given.bytes_in_flight;
  payload.copy_threads = given.copy_threads;
  payload.pool.budget_bytes = given.budget_bytes;
  if (given.pool != nullptr) payload.memory = given.pool->pool;
  return {};
}

Result<gantry_consumer_options> read(const gantry_consumer_options* options) {
  return read_struct(options, "gantry_consumer_options");
}

Result<ConsumerOptions> consumer_part_of(const gantry_consumer_options& given,
                                         const gantry_runtime& runtime) {
  ConsumerOptions made;
  made.interrupt_descriptor =
      interrupt_of(given.interrupt_descriptor, runtime.interrupt_descriptor);
  GANTRY_C_TRY(set_spin(made, given.spin_ns));
  if (given.when_slow > GANTRY_SLOW_DROP_OLDEST)
    return fail(Code::invalid_argument,
                "no policy for slow consumers has the number " + std::to_string(given.when_slow));
  made.when_slow = static_cast<SlowConsumer>(given.when_slow);
  made.depth = given.depth;
  return made;
}

Result<void> check_no_pool(const gantry_consumer_options& given) {
  if (given.pool == nullptr) return {};
  return fail(Code::invalid_argument, "gantry_consumer_options: only a server has use for a pool",
              "leave pool NULL");
}

}  // namespace

Result<ProducerOptions> producer_options_of(const gantry_producer_options* options,
                                            const gantry_runtime& runtime) {
  GANTRY_C_ASSIGN(const auto given, read_struct(options, "gantry_producer_options"));
  ProducerOptions made;
  made.interrupt_descriptor =
      interrupt_of(given.interrupt_descriptor, runtime.interrupt_descriptor);
  GANTRY_C_TRY(set_spin(made, given.spin_ns));
  GANTRY_C_TRY(set_payload(made, given));
  if (given.consumers != 0) made.consumers = given.consumers;
  made.history = given.history;
  return made;
}

Result<ClientOptions> client_options_of(const gantry_producer_options* options,
                                        const gantry_runtime& runtime) {
  GANTRY_C_ASSIGN(const auto given, read_struct(options, "gantry_producer_options"));
  if (given.consumers > 1 || given.history != 0)
    return fail(Code::invalid_argument,
                "gantry_producer_options: a client has one server and no history",
                "leave consumers and history 0");
  ClientOptions made;
  made.interrupt_descriptor =
      interrupt_of(given.interrupt_descriptor, runtime.interrupt_descriptor);
  GANTRY_C_TRY(set_spin(made, given.spin_ns));
  GANTRY_C_TRY(set_payload(made, given));
  return made;
}

Result<ConsumerOptions> consumer_options_of(const gantry_consumer_options* options,
                                            const gantry_runtime& runtime) {
  GANTRY_C_ASSIGN(const auto given, read(options));
  GANTRY_C_TRY(check_no_pool(given));
  if (given.senders != 0)
    return fail(Code::invalid_argument, "gantry_consumer_options: a consumer has one sender",
                "leave senders 0, or open an inbox");
  return consumer_part_of(given, runtime);
}

Result<InboxOptions> inbox_options_of(const gantry_consumer_options* options,
                                      const gantry_runtime& runtime) {
  GANTRY_C_ASSIGN(const auto given, read(options));
  GANTRY_C_TRY(check_no_pool(given));
  InboxOptions made;
  GANTRY_C_ASSIGN(made.channel, consumer_part_of(given, runtime));
  if (given.senders != 0) made.producers = given.senders;
  return made;
}

Result<ServerOptions> server_options_of(const gantry_consumer_options* options,
                                        const gantry_runtime& runtime) {
  GANTRY_C_ASSIGN(const auto given, read(options));
  ServerOptions made;
  GANTRY_C_ASSIGN(made.channel, consumer_part_of(given, runtime));
  if (given.senders != 0) made.clients = given.senders;
  if (given.pool != nullptr) made.replies.memory = given.pool->pool;
  return made;
}

}  // namespace gantry::c
