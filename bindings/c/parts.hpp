#pragma once  // bindings/c/parts.hpp: what is to be sent, as the library takes it.

#include <gantry/channel.hpp>
#include <span>
#include <vector>

#include "handles.hpp"
#include "structs.hpp"

namespace gantry::c {

[[nodiscard]] Tensor tensor_of(const gantry_tensor& given) noexcept;
[[nodiscard]] gantry_tensor tensor_for(const Tensor& tensor) noexcept;

/// A message of all parts. Those that are messages are emptied, but none if this fails.
[[nodiscard]] Result<Draft> draft_of(const gantry_part* parts, std::size_t count);

/// What a send takes: plain bytes where that is all there is, since the library is quickest with
/// them; else a draft.
struct Payload {
  ConstByteSpan bytes;
  std::optional<Draft> draft;
};
[[nodiscard]] Result<Payload> payload_of(const gantry_part* parts, std::size_t count);

[[nodiscard]] Result<SendOptions> send_options_of(const gantry_send_options* options,
                                                  std::int64_t timeout_ns);
/// Of a call or a reply: there is nothing to choose but its type.
[[nodiscard]] Result<std::uint32_t> type_of(const gantry_send_options* options);

/// Puts the parts as an item of a queue, which has no options but its deadline.
[[nodiscard]] Result<void> put(WorkMember& member, const gantry_part* parts, std::size_t count,
                               std::int64_t timeout_ns, const gantry_send_options* options);

/// Gives the caller a handle to a message.
void hand_out_message(gantry_message** into, Message message, const Sender& sender);
void hand_out_request(gantry_message** into, Request request);
void hand_out_item(gantry_message** into, WorkItem item);

/// Fills in what a message says of itself, all but its segments.
[[nodiscard]] gantry_message_info info_of(const MessageInfo& info) noexcept;

/// Publishes a loan with a tensor, which Producer::publish() does not take: the block that it lies
/// in is sent in its place. An output without a pool sends a copy.
template <class End>
[[nodiscard]] Result<void> publish_with(End& end, Loan loan, const Tensor& tensor,
                                        const SendOptions& options) {
  const ConstByteSpan bytes = loan.bytes();
  const Result<Pool> pool = end.pool();
  if (pool) {
    GANTRY_C_ASSIGN(Block block, pool->find(bytes.data()));
    loan = Loan();  // its credit is free for the block
    return end.send(Draft().move(std::move(block), bytes.size(), tensor), options);
  }
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  loan = Loan();
  return end.send(Draft().copy(copy, tensor), options);
}

}  // namespace gantry::c
