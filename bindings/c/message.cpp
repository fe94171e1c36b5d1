// Messages: what they say of themselves, their segments, and private views of these.

#include "parts.hpp"
#include "private_memory.hpp"

using gantry::Code;
using gantry::Result;
namespace c = gantry::c;

struct gantry_view : c::Handle {
  gantry_view(std::shared_ptr<c::MessageState> of, c::PrivateMemory made)
      : state(std::move(of)), memory(std::move(made)) {}
  std::shared_ptr<c::MessageState> state;  // the pages that were not written are its sender's
  c::PrivateMemory memory;
};

namespace gantry::c {

void hand_out_message(gantry_message** into, Message message, const Sender& sender) {
  auto state = std::make_shared<MessageState>();
  state->plain = std::move(message);
  state->sender = sender;
  hand_out(into, std::move(state));
}

void hand_out_request(gantry_message** into, Request request) {
  auto state = std::make_shared<MessageState>();
  state->sender = request.sender();
  state->request = std::move(request);
  hand_out(into, std::move(state));
}

void hand_out_item(gantry_message** into, WorkItem item) {
  auto state = std::make_shared<MessageState>();
  state->item = std::move(item);
  hand_out(into, std::move(state));
}

gantry_message_info info_of(const MessageInfo& info) noexcept {
  gantry_message_info told{};
  told.sequence = info.sequence;
  told.user = info.user;
  told.correlation = info.correlation;
  told.deadline_ns = info.deadline_ns;
  told.type = info.type;
  return told;
}

namespace {

Result<MessageState*> state_of(const gantry_message* message) {
  GANTRY_C_TRY(check_pointer(message, "message"));
  if (message->state) return message->state.get();
  return fail(Code::invalid_argument, "that message is empty: it was forwarded");
}

Result<Segment> segment_of(const MessageState& state, std::size_t index) {
  if (index < state.segments()) return state.segment(index);
  return fail(Code::invalid_argument, "no segment " + std::to_string(index) + " in a message of " +
                                          std::to_string(state.segments()));
}

}  // namespace

}  // namespace gantry::c

gantry_code gantry_message_get_info(const gantry_message* message, gantry_message_info* info) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(info, "info"));
    GANTRY_C_TRY(c::size_of(info, "gantry_message_info"));
    GANTRY_C_ASSIGN(c::MessageState* const state, c::state_of(message));
    const gantry::Message& received = state->message();
    gantry_message_info told = c::info_of(received.info());
    for (std::size_t i = 0; i < state->segments(); ++i)
      told.bytes += state->segment(i).bytes.size();
    told.segments = static_cast<std::uint32_t>(state->segments());
    if (state->item) {
      told.sequence = state->item->number();
      told.correlation = 0;
      told.tries = state->item->tries();
    }
    told.sender = state->sender.id;
    told.sender_uid = state->sender.uid;
    told.sender_pid = state->sender.pid;
    told.wants_reply =
        state->request && !state->answered && !state->request->is_cancelled() ? 1 : 0;
    return c::write_struct(info, told, "gantry_message_info");
  });
}

gantry_code gantry_message_segment(const gantry_message* message, std::size_t index,
                                   gantry_segment* segment) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(segment, "segment"));
    GANTRY_C_TRY(c::size_of(segment, "gantry_segment"));
    GANTRY_C_ASSIGN(c::MessageState* const state, c::state_of(message));
    GANTRY_C_ASSIGN(const gantry::Segment found, c::segment_of(*state, index));
    gantry_segment told{};
    told.data = found.bytes.data();
    told.bytes = found.bytes.size();
    told.has_tensor = found.tensor ? 1 : 0;
    if (found.tensor) told.tensor = c::tensor_for(*found.tensor);
    return c::write_struct(segment, told, "gantry_segment");
  });
}

gantry_code gantry_message_view(const gantry_message* message, std::size_t index,
                                gantry_view** view, void** data) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(view, "view"));
    GANTRY_C_TRY(c::clear(data, "data"));
    GANTRY_C_ASSIGN(c::MessageState* const state, c::state_of(message));
    GANTRY_C_ASSIGN(const gantry::Segment found, c::segment_of(*state, index));
    GANTRY_C_ASSIGN(c::PrivateMemory memory, c::PrivateMemory::of(state->message(), found.bytes));
    void* const begin = memory.data();
    c::hand_out(view, message->state, std::move(memory));
    *data = begin;
    return {};
  });
}
