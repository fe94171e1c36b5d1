// What ranks say to each other.
#include "base/result.hpp"
#include "group/group.hpp"
#include "remote/words.hpp"

namespace gantry {

std::vector<std::byte> RankMessage::encode() const {
  WordWriter out;
  out.number(static_cast<std::uint64_t>(kind));
  out.number(operation);
  out.number(word);
  out.bytes(payload);
  return out.take();
}

Result<RankMessage> RankMessage::decode(ConstByteSpan bytes) {
  WordReader in(bytes);
  RankMessage message;
  const auto kind = in.number(8, static_cast<std::uint64_t>(Kind::failed));
  message.kind = static_cast<Kind>(kind);
  message.operation = in.number();
  message.word = in.number();
  if (!in.is_fine() || kind == 0 || in.rest().size() > kMostPayload)
    return fail(Code::peer_misbehaved,
                fmt::format("a message of {} bytes that is none of a rank's", bytes.size()));
  message.payload.assign(in.rest().begin(), in.rest().end());
  return message;
}

RankMessage RankMessage::of_failure(std::uint64_t operation, const Error& error) {
  WordWriter out;
  out.text(error.message, kMostPayload / 2);
  out.text(error.hint, kMostPayload / 4);
  return {Kind::failed, operation, static_cast<std::uint64_t>(error.code), out.take()};
}

Error RankMessage::failure() const {
  WordReader in(payload);
  Error error;
  error.code = word <= static_cast<std::uint64_t>(Code::build_failed) ? static_cast<Code>(word)
                                                                      : Code::peer_gone;
  error.message = in.text(kMostPayload / 2);
  error.hint = in.text(kMostPayload / 4);
  return error;
}

}  // namespace gantry
