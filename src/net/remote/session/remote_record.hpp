#pragma once  // remote/session/remote_record.hpp: what the two sides of a channel between hosts
              // tell each other over their link.

#include <gantry/channel.hpp>
#include <gantry/link.hpp>

#include "net/remote/words.hpp"

namespace gantry {

// docs/formats/remote.md
enum class RemoteKind : std::uint8_t {
  message = 1,  // sending side: a message, or the beginning of what is said of it
  more,         // sending side: the rest of that
  ended,        // sending side: there is no message behind the last one, and why
  received,     // receiving side: all up to a number are in its channel; they may be given up here
  finished,     // receiving side: whoever reads its channel has received the end, too
  stopped,      // receiving side: it takes no more, and why
  joined,       // bridge: the end there is open
  place,        // receiving side: payload may be put there unasked
  again,        // bridge: the caller is to call again, for the channel's process takes it
};

/// What travels with a message, in front of its payload or in place of it.
struct RemoteHead {
  struct Part {
    Bytes bytes = 0;
    RemoteRegion region;  // in which the payload lies, unless it follows
    std::optional<Tensor> tensor;
    Bytes offset = 0;  // in the region
  };
  std::uint64_t number = 0;  // in its session, from 1
  MessageInfo info;
  /// deadline_ns is another clock's there: what is left of it travels. 0: there is none.
  std::uint64_t time_left_ns = 0;
  Bytes bytes = 0;  // of all parts
  std::vector<Part> parts;
  bool has_payload = false;  // it follows the head
  /// The offered place where its payload is being put; if that is there no longer, it is fetched.
  /// 0: none. Only of a single part.
  std::uint64_t place = 0;

  /// Payloads that leave the whole in one message of the link travel with their head.
  [[nodiscard]] static bool travels_with_head(const Message& message) noexcept;
  /// Most of what a head alone takes.
  static constexpr std::size_t kMostBytes = std::size_t{16} << 10;

  [[nodiscard]] std::vector<std::byte> encode() const;
  /// `rest`: what follows the head. Errors: `peer_misbehaved` for what encode() never makes, among
  /// it tensors that do not fit their bytes.
  [[nodiscard]] static Result<RemoteHead> decode(ConstByteSpan bytes, ConstByteSpan& rest);

  [[nodiscard]] bool is_plain() const noexcept { return parts.size() == 1 && !parts[0].tensor; }
};

/// Cuts what is said into control messages of a link, each with its kind in front.
[[nodiscard]] std::vector<std::vector<std::byte>> cut_for_link(ConstByteSpan words);

/// Puts them together again. Errors: `peer_misbehaved`.
class HeadAssembler {
 public:
  /// `first`: RemoteKind::message, else ::more. True: words() are complete.
  [[nodiscard]] Result<bool> take(bool is_first, ConstByteSpan bytes);
  [[nodiscard]] ConstByteSpan words() const noexcept { return words_; }
  /// Some of it is still to come.
  [[nodiscard]] bool has_begun() const noexcept { return wanted_ != 0; }

 private:
  std::vector<std::byte> words_;
  std::size_t wanted_ = 0;  // 0: nothing has begun
};

/// A record that says a kind and a number, or a kind and an error.
[[nodiscard]] std::vector<std::byte> say_number(RemoteKind kind, std::uint64_t number);
[[nodiscard]] std::vector<std::byte> say_error(RemoteKind kind, const Error& error);

/// What a message of a session of calls is: its MessageInfo::user. Its correlation is the number of
/// the call, which the caller counts from 1.
enum class CallKind : std::uint8_t {
  request = 1,  // caller
  cancel,       // caller: nobody waits for the answer any more; no payload
  reply,        // bridge
  refusal,      // bridge: the payload is an error
};
[[nodiscard]] MessageInfo info_of_call(CallKind kind, std::uint64_t number) noexcept;
[[nodiscard]] std::vector<std::byte> encode_refusal(const Error& error);
/// Errors: `peer_misbehaved`.
[[nodiscard]] Result<Error> decode_refusal(ConstByteSpan payload);

/// Memory of the receiving side.
struct RemotePlace {
  std::uint64_t number = 0;  // of all that it ever offered over a link, from 1
  RemoteRegion region;
};
[[nodiscard]] std::vector<std::byte> say_place(const RemotePlace& place);
/// `in`: behind the kind. Errors: `peer_misbehaved`.
[[nodiscard]] Result<RemotePlace> read_place(WordReader& in);

}  // namespace gantry
