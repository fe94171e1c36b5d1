// Receiving ends: how they are opened, and what is received by them.

#include "options.hpp"
#include "parts.hpp"

using gantry::Code;
using gantry::Result;
namespace c = gantry::c;

namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

tl::unexpected<gantry::Error> not_of_this(const char* function, const char* hint) {
  return c::fail(Code::unsupported,
                 std::string(function) + ": this kind of receiving end does not have it", hint);
}

Result<void> receive_into(gantry_message** message, gantry_consumer& end,
                          gantry::Deadline deadline) {
  const auto plain = [&](auto& from) -> Result<void> {
    GANTRY_C_ASSIGN(gantry::Message received, from.receive(deadline));
    c::hand_out_message(message, std::move(received), {});
    return {};
  };
  return std::visit(
      Overloaded{plain,
                 [&](gantry::Inbox& inbox) -> Result<void> {
                   GANTRY_C_ASSIGN(gantry::Inbox::Delivery delivery, inbox.receive(deadline));
                   c::hand_out_message(message, std::move(delivery.message), delivery.sender);
                   return {};
                 },
                 [&](gantry::WorkMember& worker) -> Result<void> {
                   GANTRY_C_ASSIGN(gantry::WorkItem item, worker.get(deadline));
                   c::hand_out_item(message, std::move(item));
                   return {};
                 },
                 [&](gantry::Server& server) -> Result<void> {
                   GANTRY_C_ASSIGN(gantry::Request request, server.next(deadline));
                   c::hand_out_request(message, std::move(request));
                   return {};
                 }},
      end.end);
}

}  // namespace

gantry_code gantry_consumer_open(gantry_runtime* runtime, const char* name,
                                 const gantry_consumer_options* options, std::int64_t timeout_ns,
                                 gantry_consumer** consumer) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, name, consumer, "consumer"));
    GANTRY_C_ASSIGN(auto made, c::consumer_options_of(options, *runtime));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    GANTRY_C_ASSIGN(gantry::Consumer opened,
                    runtime->runtime.consumer(name, std::move(made), deadline));
    c::hand_out(consumer, std::move(opened));
    return {};
  });
}

gantry_code gantry_inbox_open(gantry_runtime* runtime, const char* name,
                              const gantry_consumer_options* options, gantry_consumer** inbox) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, name, inbox, "inbox"));
    GANTRY_C_ASSIGN(auto made, c::inbox_options_of(options, *runtime));
    GANTRY_C_ASSIGN(gantry::Inbox opened, runtime->runtime.inbox(name, std::move(made)));
    c::hand_out(inbox, std::move(opened));
    return {};
  });
}

gantry_code gantry_server_open(gantry_runtime* runtime, const char* name,
                               const gantry_consumer_options* options, gantry_consumer** server) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, name, server, "server"));
    GANTRY_C_ASSIGN(auto made, c::server_options_of(options, *runtime));
    GANTRY_C_ASSIGN(gantry::Server opened, runtime->runtime.server(name, std::move(made)));
    c::hand_out(server, std::move(opened));
    return {};
  });
}

gantry_code gantry_stage_input(gantry_runtime* runtime, const char* name,
                               gantry_consumer** consumer) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, name, consumer, "consumer"));
    GANTRY_C_ASSIGN(gantry::StageInput opened,
                    gantry::stage_input(name, {runtime->interrupt_descriptor}));
    c::hand_out(consumer, std::move(opened));
    return {};
  });
}

gantry_code gantry_receive(gantry_consumer* consumer, std::int64_t timeout_ns,
                           gantry_message** message) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(message, "message"));
    GANTRY_C_TRY(c::check_pointer(consumer, "consumer"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    return receive_into(message, *consumer, deadline);
  });
}

gantry_code gantry_look(gantry_consumer* consumer, std::int64_t timeout_ns,
                        gantry_message** message) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(message, "message"));
    GANTRY_C_TRY(c::check_pointer(consumer, "consumer"));
    auto* const end = std::get_if<gantry::Consumer>(&consumer->end);
    if (end == nullptr) return not_of_this("gantry_look", "gantry_receive()");
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    auto state = std::make_shared<c::MessageState>();
    const auto& looked = state->look.emplace(*end, deadline).message();
    if (!looked) return tl::unexpected(looked.error());
    c::hand_out(message, std::move(state));
    return {};
  });
}

gantry_code gantry_receive_into(gantry_consumer* consumer, void* buffer, std::size_t capacity,
                                std::int64_t timeout_ns, std::size_t* received,
                                gantry_message_info* info) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(received, "received"));
    GANTRY_C_TRY(c::check_pointer(consumer, "consumer"));
    if (capacity != 0) GANTRY_C_TRY(c::check_pointer(buffer, "buffer"));
    if (info != nullptr) GANTRY_C_TRY(c::size_of(info, "gantry_message_info"));
    auto* const end = std::get_if<gantry::Consumer>(&consumer->end);
    if (end == nullptr) return not_of_this("gantry_receive_into", "gantry_receive(), then copy");
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    GANTRY_C_ASSIGN(const gantry::Consumer::Copied copied,
                    end->receive_into({static_cast<std::byte*>(buffer), capacity}, deadline));
    *received = copied.bytes;
    if (info == nullptr) return {};
    gantry_message_info told = c::info_of(copied.info);
    told.bytes = copied.bytes;
    told.segments = 1;
    return c::write_struct(info, told, "gantry_message_info");
  });
}

gantry_code gantry_consumer_rejoin(gantry_consumer* consumer, std::int64_t timeout_ns) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(consumer, "consumer"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    if (auto* const end = std::get_if<gantry::Consumer>(&consumer->end))
      return end->rejoin(deadline);
    return not_of_this("gantry_consumer_rejoin", "its senders come to it");
  });
}

gantry_code gantry_consumer_descriptor(gantry_consumer* consumer, int* descriptor) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(descriptor, "descriptor"));
    *descriptor = -1;
    GANTRY_C_TRY(c::check_pointer(consumer, "consumer"));
    GANTRY_C_ASSIGN(
        *descriptor,
        std::visit(Overloaded{[](gantry::StageInput&) -> Result<int> {
                                return not_of_this("gantry_consumer_descriptor",
                                                   "receive in a thread of its own");
                              },
                              [](auto& end) -> Result<int> { return end.event_descriptor(); }},
                   consumer->end));
    return {};
  });
}
