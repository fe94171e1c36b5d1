// What another host says before and during a session: what is accepted must be consistent, and
// as long when it is said again.
#include <gantry/channel.hpp>
#include <vector>

#include "fuzz/input.hpp"
#include "net/remote/admission.hpp"
#include "net/remote/listing.hpp"
#include "net/remote/remote_name.hpp"
#include "net/remote/session/remote_record.hpp"

namespace {

using namespace gantry;
using fuzz::require;

void check_head(ConstByteSpan words) {
  ConstByteSpan rest;
  const auto head = RemoteHead::decode(words, rest);
  if (!head) return require(head.error().code == Code::peer_misbehaved);
  require(!head->parts.empty() && head->parts.size() <= kMaxSegments);
  Bytes sum = 0;
  for (const RemoteHead::Part& part : head->parts) {
    require(part.bytes <= head->bytes - sum);  // no sum that wraps
    sum += part.bytes;
    require(!part.tensor || part.tensor->fits(part.bytes));
    require(head->has_payload || part.bytes == 0 ||
            (part.offset <= part.region.bytes && part.bytes <= part.region.bytes - part.offset &&
             part.region.access != RemoteAccess::write));
  }
  require(sum == head->bytes && rest.size() == (head->has_payload ? sum : 0));
  require(head->place == 0 || (head->parts.size() == 1 && sum != 0 && !head->has_payload));
  require(head->encode().size() + rest.size() == words.size());
}

void check_refusal(ConstByteSpan words) {
  const auto why = decode_refusal(words);
  if (!why) return require(why.error().code == Code::peer_misbehaved);
  require(why->code <= Code::build_failed && encode_refusal(*why).size() == words.size());
}

void check_place(ConstByteSpan words) {
  WordReader in(words);
  const auto place = read_place(in);
  if (!place) return require(place.error().code == Code::peer_misbehaved);
  require(place->number != 0 && place->region.access != RemoteAccess::read);
  const auto again = say_place(*place);
  require(std::ranges::equal(std::span(again).subspan(1), words));
}

// Pieces of the input's choice; each head that gets whole is decoded.
void check_pieces(fuzz::Input input) {
  HeadAssembler assembler;
  while (!input.empty()) {
    const auto choice = input.take<std::uint8_t>();
    const auto piece = std::as_bytes(input.take_bytes(input.take<std::uint16_t>() % 4096));
    const bool is_first = choice % 8 == 0 ? choice >= 128 : !assembler.has_begun();
    const auto whole = assembler.take(is_first, piece);
    if (!whole) return require(whole.error().code == Code::peer_misbehaved);
    require(assembler.words().size() <= RemoteHead::kMostBytes);
    require(*whole == !assembler.has_begun());
    if (*whole) check_head(assembler.words());
  }
}

void check_cut(ConstByteSpan words) {
  words = words.first(std::min(words.size(), RemoteHead::kMostBytes));
  if (words.empty()) return;
  HeadAssembler assembler;
  bool is_whole = false;
  for (const auto& piece : cut_for_link(words)) {
    require(!is_whole && piece.size() <= kMaxControlBytes);
    const bool is_first = piece[0] == static_cast<std::byte>(RemoteKind::message);
    is_whole = *assembler.take(is_first, ConstByteSpan(piece).subspan(1));
  }
  require(is_whole && std::ranges::equal(assembler.words(), words));
}

void check_request(ConstByteSpan words) {
  const auto request = RemoteRequest::decode(words);
  if (!request) return require(request.error().code == Code::peer_misbehaved);
  require(request->role == RemoteRole::look ? request->channel.empty()
                                            : check_channel_name(request->channel).has_value());
  require(request->role >= RemoteRole::consume && request->role <= RemoteRole::call);
  require(request->slots <= PayloadOptions::kMaxSlots);
  require(std::ranges::equal(request->encode(), words));
}

void check_answer(ConstByteSpan words) {
  const auto answer = RemoteAnswer::decode(words);
  if (!answer) return require(answer.error().code == Code::peer_misbehaved);
  const auto again = answer->encode();
  require(again.size() == words.size() && again.size() <= RemoteAnswer::kMostBytes);
  if (!answer->refusal) return require(std::ranges::equal(again, words));
  require(answer->refusal->code <= Code::build_failed);
  for (const char letter : answer->refusal->message + answer->refusal->hint)
    require(letter >= 0x20 && letter < 0x7f);
}

void check_listing(ConstByteSpan words) {
  const auto channels = decode_listing(words);
  if (!channels) return require(channels.error().code == Code::peer_misbehaved);
  for (const ChannelStatus& channel : *channels) {
    require(channel.producer_pid >= 0 && channel.age.count() >= 0);
    require(channel.producer_state <= ProcessState::gone);
    for (const ConsumerStatus& one : channel.consumers) require(one.state <= ProcessState::gone);
    for (const char letter : channel.name + channel.silence)
      require(letter >= 0x20 && letter < 0x7f);
  }
}

void check_name(std::string_view text) {
  const auto name = parse_remote_name(text);
  if (!name) return require(name.error().code == Code::invalid_argument);
  require(name->has_value() == (text.find('@') != std::string_view::npos));
  if (!*name) return;
  const auto again = parse_remote_name((*name)->text());
  require(again.has_value() && again->has_value());
  require((*again)->channel == (*name)->channel && (*again)->text() == (*name)->text());
  require((*again)->where.host == (*name)->where.host);
  require((*again)->where.path == (*name)->where.path);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto which = input.take<std::uint8_t>();
  const fuzz::Input pieces = input;
  const auto bytes = input.take_bytes(size);
  const auto words = std::as_bytes(bytes);
  if (which % 8 == 0) check_head(words);
  if (which % 8 == 1) check_pieces(pieces);
  if (which % 8 == 2) check_cut(words);
  if (which % 8 == 3) check_request(words);
  if (which % 8 == 4) check_answer(words);
  if (which % 8 == 6) check_listing(words);
  if (which % 16 == 7) check_place(words);
  if (which % 16 == 15) check_refusal(words);
  if (which % 8 == 5) check_name({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return 0;
}
