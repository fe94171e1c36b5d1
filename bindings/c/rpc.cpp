// Calls and replies.

#include "options.hpp"
#include "parts.hpp"

using gantry::Code;
using gantry::Result;
namespace c = gantry::c;

namespace {

Result<gantry::Client*> client_of(gantry_producer* end) {
  GANTRY_C_TRY(c::check_pointer(end, "client"));
  if (auto* const client = std::get_if<gantry::Client>(&end->end)) return client;
  return c::fail(Code::invalid_argument, "gantry_call_begin: that end is no client",
                 "gantry_client_connect()");
}

Result<gantry::Request*> request_of(gantry_message* message) {
  GANTRY_C_TRY(c::check_pointer(message, "request"));
  if (message->state && message->state->request) return &*message->state->request;
  return c::fail(Code::invalid_argument, "that message is no request",
                 "receive requests from gantry_server_open()");
}

}  // namespace

gantry_code gantry_client_connect(gantry_runtime* runtime, const char* server,
                                  const gantry_producer_options* options, std::int64_t timeout_ns,
                                  gantry_producer** client) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, server, client, "client"));
    GANTRY_C_ASSIGN(auto made, c::client_options_of(options, *runtime));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    const auto pool = made.memory;
    GANTRY_C_ASSIGN(gantry::Client opened,
                    runtime->runtime.client(server, std::move(made), deadline));
    c::hand_out(client, std::move(opened), pool);
    return {};
  });
}

gantry_code gantry_call_begin(gantry_producer* client, const gantry_part* parts, std::size_t count,
                              std::int64_t timeout_ns, const gantry_send_options* options,
                              gantry_call** call) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(call, "call"));
    GANTRY_C_ASSIGN(gantry::Client* const end, client_of(client));
    gantry::CallOptions made;
    GANTRY_C_ASSIGN(made.deadline, c::deadline_of(timeout_ns));
    GANTRY_C_ASSIGN(made.type, c::type_of(options));
    GANTRY_C_ASSIGN(c::Payload payload, c::payload_of(parts, count));
    GANTRY_C_ASSIGN(gantry::PendingReply pending,
                    payload.draft ? end->call_async(std::move(*payload.draft), made)
                                  : end->call_async(payload.bytes, made));
    c::hand_out(call, std::move(pending));
    return {};
  });
}

gantry_code gantry_call_wait(gantry_call* call, std::int64_t timeout_ns, gantry_message** reply,
                             int* is_over) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(reply, "reply"));
    if (is_over != nullptr) *is_over = 0;
    GANTRY_C_TRY(c::check_pointer(call, "call"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    auto received = call->pending.wait(deadline);
    if (is_over != nullptr) *is_over = call->pending.is_over() ? 1 : 0;
    if (!received) return tl::unexpected(std::move(received).error());
    c::hand_out_message(reply, std::move(*received), {});
    return {};
  });
}

gantry_code gantry_reply(gantry_message* request, const gantry_part* parts, std::size_t count,
                         std::int64_t timeout_ns, const gantry_send_options* options) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_ASSIGN(gantry::Request* const asked, request_of(request));
    gantry::ReplyOptions made;
    GANTRY_C_ASSIGN(made.deadline, c::deadline_of(timeout_ns));
    GANTRY_C_ASSIGN(made.type, c::type_of(options));
    GANTRY_C_ASSIGN(c::Payload payload, c::payload_of(parts, count));
    GANTRY_C_TRY(payload.draft ? asked->reply(std::move(*payload.draft), made)
                               : asked->reply(payload.bytes, made));
    request->state->answered = true;
    return {};
  });
}

gantry_code gantry_refuse(gantry_message* request, gantry_code code, const char* message,
                          const char* hint) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_ASSIGN(gantry::Request* const asked, request_of(request));
    if (code == GANTRY_OK)
      return c::fail(Code::invalid_argument, "a request is not refused with GANTRY_OK",
                     "gantry_reply() answers it");
    GANTRY_C_TRY(asked->refuse(
        {c::code_of(code), message == nullptr ? "" : message, hint == nullptr ? "" : hint}));
    request->state->answered = true;
    return {};
  });
}
