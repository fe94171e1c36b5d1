// Sending ends: how they are opened, and what is sent by them.

#include "options.hpp"
#include "parts.hpp"

using gantry::Code;
using gantry::Result;
namespace c = gantry::c;

namespace {

using Producer = gantry::Producer;
using StageOutput = gantry::StageOutput;

tl::unexpected<gantry::Error> is_client(const char* function) {
  return c::fail(Code::unsupported, std::string(function) + ": a client has no stream",
                 "it calls its server: gantry_call_begin()");
}

tl::unexpected<gantry::Error> puts_only(const char* function) {
  return c::fail(Code::unsupported, std::string(function) + ": an end of a queue puts items only",
                 "gantry_send(), with blocks of gantry_producer_pool()");
}

/// The producer of a channel or of an inbox, which alone can do what `function` does.
Result<Producer*> producer_of(gantry_producer* end, const char* function) {
  GANTRY_C_TRY(c::check_pointer(end, "producer"));
  if (auto* const producer = std::get_if<Producer>(&end->end)) return producer;
  if (std::holds_alternative<gantry::Client>(end->end)) return is_client(function);
  if (std::holds_alternative<gantry::WorkMember>(end->end)) return puts_only(function);
  return c::fail(Code::unsupported, std::string(function) + ": a stage's output does not have it",
                 "gantry_send() and loans work on every output");
}

/// Runs `work` on whichever end has a stream.
template <class Work>
auto on_stream(gantry_producer* end, const char* function, Work work)
    -> decltype(work(std::declval<Producer&>())) {
  GANTRY_C_TRY(c::check_pointer(end, "producer"));
  if (auto* const producer = std::get_if<Producer>(&end->end)) return work(*producer);
  if (auto* const output = std::get_if<StageOutput>(&end->end)) return work(*output);
  if (std::holds_alternative<gantry::WorkMember>(end->end)) return puts_only(function);
  return is_client(function);
}

}  // namespace

gantry_code gantry_producer_open(gantry_runtime* runtime, const char* name,
                                 const gantry_producer_options* options,
                                 gantry_producer** producer) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, name, producer, "producer"));
    GANTRY_C_ASSIGN(auto made, c::producer_options_of(options, *runtime));
    const auto pool = made.memory;
    GANTRY_C_ASSIGN(Producer opened, runtime->runtime.producer(name, std::move(made)));
    c::hand_out(producer, std::move(opened), pool);
    return {};
  });
}

gantry_code gantry_producer_connect(gantry_runtime* runtime, const char* inbox,
                                    const gantry_producer_options* options, std::int64_t timeout_ns,
                                    gantry_producer** producer) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, inbox, producer, "producer"));
    GANTRY_C_ASSIGN(auto made, c::producer_options_of(options, *runtime));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    const auto pool = made.memory;
    GANTRY_C_ASSIGN(Producer opened, runtime->runtime.connect(inbox, std::move(made), deadline));
    c::hand_out(producer, std::move(opened), pool);
    return {};
  });
}

gantry_code gantry_stage_output(gantry_runtime* runtime, const char* name,
                                gantry_producer** producer) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, name, producer, "producer"));
    GANTRY_C_ASSIGN(StageOutput opened,
                    gantry::stage_output(name, {runtime->interrupt_descriptor}));
    c::hand_out(producer, std::move(opened), std::nullopt);
    return {};
  });
}

gantry_code gantry_producer_wait_for_consumers(gantry_producer* producer, std::uint32_t count,
                                               std::int64_t timeout_ns) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(producer, "producer"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    if (auto* const client = std::get_if<gantry::Client>(&producer->end))
      return client->check() ? Result<void>() : client->reconnect(deadline);
    GANTRY_C_ASSIGN(Producer* const end,
                    producer_of(producer, "gantry_producer_wait_for_consumers"));
    return end->wait_for_consumer(deadline, count);
  });
}

gantry_code gantry_send(gantry_producer* producer, const gantry_part* parts, std::size_t count,
                        std::int64_t timeout_ns, const gantry_send_options* options) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(producer, "producer"));
    if (auto* const member = std::get_if<gantry::WorkMember>(&producer->end))
      return c::put(*member, parts, count, timeout_ns, options);
    return on_stream(producer, "gantry_send", [&](auto& end) -> Result<void> {
      GANTRY_C_ASSIGN(const auto made, c::send_options_of(options, timeout_ns));
      GANTRY_C_ASSIGN(c::Payload payload, c::payload_of(parts, count));
      return payload.draft ? end.send(std::move(*payload.draft), made)
                           : end.send(payload.bytes, made);
    });
  });
}

gantry_code gantry_send_async(gantry_producer* producer, const gantry_part* parts,
                              std::size_t count, std::int64_t timeout_ns,
                              const gantry_send_options* options, std::uint64_t* ticket) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(ticket, "ticket"));
    GANTRY_C_ASSIGN(Producer* const end, producer_of(producer, "gantry_send_async"));
    GANTRY_C_ASSIGN(const auto made, c::send_options_of(options, timeout_ns));
    GANTRY_C_ASSIGN(c::Payload payload, c::payload_of(parts, count));
    GANTRY_C_ASSIGN(const gantry::Ticket taken,
                    payload.draft ? end->send_async(std::move(*payload.draft), made)
                                  : end->send_async(payload.bytes, made));
    *ticket = static_cast<std::uint64_t>(taken);
    return {};
  });
}

gantry_code gantry_ticket_wait(gantry_producer* producer, std::uint64_t ticket,
                               std::int64_t timeout_ns) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_ASSIGN(Producer* const end, producer_of(producer, "gantry_ticket_wait"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    return end->wait(gantry::Ticket{ticket}, deadline);
  });
}

gantry_code gantry_loan_take(gantry_producer* producer, std::size_t bytes, std::int64_t timeout_ns,
                             gantry_loan** loan, void** data) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(loan, "loan"));
    GANTRY_C_TRY(c::clear(data, "data"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    GANTRY_C_ASSIGN(gantry::Loan taken,
                    on_stream(producer, "gantry_loan_take", [&](auto& end) -> Result<gantry::Loan> {
                      return end.loan(bytes, deadline);
                    }));
    void* const begin = taken.bytes().data();
    c::hand_out(loan, std::move(taken));
    *data = begin;
    return {};
  });
}

gantry_code gantry_loan_publish(gantry_producer* producer, gantry_loan* loan, std::size_t bytes,
                                const gantry_tensor* tensor, std::int64_t timeout_ns,
                                const gantry_send_options* options) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(loan, "loan"));
    gantry::Loan taken = std::move(loan->loan);  // gone, also on failure
    if (!taken)
      return c::fail(Code::invalid_argument, "that loan is empty: it was published or given up",
                     "take a new one by gantry_loan_take()");
    GANTRY_C_ASSIGN(const auto made, c::send_options_of(options, timeout_ns));
    if (bytes > taken.bytes().size())
      return c::fail(Code::invalid_argument, std::to_string(bytes) + " bytes of a loan of " +
                                                 std::to_string(taken.bytes().size()));
    if (bytes != 0) taken.shrink(bytes);
    return on_stream(producer, "gantry_loan_publish", [&](auto& end) -> Result<void> {
      if (tensor == nullptr) return end.publish(std::move(taken), made);
      return c::publish_with(end, std::move(taken), c::tensor_of(*tensor), made);
    });
  });
}

gantry_code gantry_producer_pool(gantry_producer* producer, gantry_pool** pool) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(pool, "pool"));
    GANTRY_C_TRY(c::check_pointer(producer, "producer"));
    if (std::holds_alternative<gantry::Client>(producer->end) && producer->pool) {
      c::hand_out(pool, *producer->pool);
      return {};
    }
    if (const auto* const member = std::get_if<gantry::WorkMember>(&producer->end)) {
      c::hand_out(pool, member->pool());
      return {};
    }
    GANTRY_C_ASSIGN(gantry::Pool found,
                    on_stream(producer, "gantry_producer_pool",
                              [](auto& end) -> Result<gantry::Pool> { return end.pool(); }));
    c::hand_out(pool, std::move(found));
    return {};
  });
}

gantry_code gantry_producer_descriptor(gantry_producer* producer, int* descriptor) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(descriptor, "descriptor"));
    *descriptor = -1;
    GANTRY_C_TRY(c::check_pointer(producer, "producer"));
    if (auto* const client = std::get_if<gantry::Client>(&producer->end)) {
      GANTRY_C_ASSIGN(*descriptor, client->event_descriptor());
      static_cast<void>(client->check());  // takes note; a lost server is told to each call
      return {};
    }
    GANTRY_C_ASSIGN(Producer* const end, producer_of(producer, "gantry_producer_descriptor"));
    GANTRY_C_ASSIGN(*descriptor, end->sent_descriptor());
    end->note_woken();
    return {};
  });
}

gantry_code gantry_producer_close(gantry_producer* producer, std::int64_t timeout_ns) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    return on_stream(producer, "gantry_producer_close",
                     [&](auto& end) -> Result<void> { return end.close(deadline); });
  });
}
