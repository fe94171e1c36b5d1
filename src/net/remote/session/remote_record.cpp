#include "net/remote/session/remote_record.hpp"

#include <limits>

#include "core/base/result.hpp"

namespace gantry {
namespace {

constexpr std::size_t kHeadBytes = 64;
constexpr std::size_t kSizeBytes = 4;
constexpr std::size_t kPartBytes = 9;  // without region and tensor
constexpr std::size_t kFirstPiece = kMaxControlBytes - 1 - kSizeBytes;
constexpr std::size_t kNextPiece = kMaxControlBytes - 1;

std::size_t tensor_bytes(const Tensor& tensor) noexcept {
  return 5 + std::size_t{16} * tensor.dimensions;
}

void write_tensor(WordWriter& out, const Tensor& tensor) {
  out.number(tensor.type.code, 1);
  out.number(tensor.type.bits, 1);
  out.number(tensor.type.lanes, 2);
  out.number(tensor.dimensions, 1);
  for (unsigned i = 0; i < tensor.dimensions; ++i) {
    out.number(static_cast<std::uint64_t>(tensor.shape[i]));
    out.number(static_cast<std::uint64_t>(tensor.strides[i]));
  }
}

Tensor read_tensor(WordReader& in) {
  Tensor tensor;
  tensor.type.code = static_cast<std::uint8_t>(in.number(1));
  tensor.type.bits = static_cast<std::uint8_t>(in.number(1));
  tensor.type.lanes = static_cast<std::uint16_t>(in.number(2));
  tensor.dimensions = static_cast<unsigned>(in.number(1, Tensor::kMaxDimensions));
  for (unsigned i = 0; i < tensor.dimensions; ++i) {
    tensor.shape[i] = static_cast<std::int64_t>(in.number());
    tensor.strides[i] = static_cast<std::int64_t>(in.number());
  }
  return tensor;
}

tl::unexpected<Error> no_head(std::string_view why) {
  return fail(Code::peer_misbehaved, fmt::format("it announces a message that cannot be: {}", why));
}

}  // namespace

bool RemoteHead::travels_with_head(const Message& message) noexcept {
  std::size_t room = kFirstPiece - kHeadBytes;
  for (std::size_t i = 0; i < message.segments(); ++i) {
    const Segment segment = message.segment(i);
    const std::size_t takes =
        kPartBytes + (segment.tensor ? tensor_bytes(*segment.tensor) : 0) + segment.bytes.size();
    if (takes > room) return false;
    room -= takes;
  }
  return true;
}

std::vector<std::byte> RemoteHead::encode() const {
  WordWriter out;
  out.number(number);
  out.number(info.sequence);
  out.number(info.user);
  out.number(info.correlation);
  out.number(time_left_ns);
  out.number(info.type, 4);
  out.number(parts.size(), 1);
  out.number(has_payload ? 1 : 0, 1);
  out.number(0, 2);
  out.number(bytes);
  out.number(place);
  for (const Part& part : parts) {
    out.number(part.bytes);
    out.number(part.tensor ? 1 : 0, 1);
    if (!has_payload && part.bytes > 0) {
      out.bytes(part.region.encode());
      out.number(part.offset);
    }
    if (part.tensor) write_tensor(out, *part.tensor);
  }
  return out.take();
}

Result<RemoteHead> RemoteHead::decode(ConstByteSpan words, ConstByteSpan& rest) {
  WordReader in(words);
  RemoteHead head;
  head.number = in.number();
  head.info.sequence = in.number();
  head.info.user = in.number();
  head.info.correlation = in.number();
  head.time_left_ns = in.number();
  head.info.type = static_cast<std::uint32_t>(in.number(4));
  const auto parts = static_cast<std::size_t>(in.number(1, kMaxSegments));
  head.has_payload = in.number(1, 1) == 1;
  static_cast<void>(in.number(2, 0));
  head.bytes = in.number();
  head.place = in.number();
  Bytes sum = 0;
  for (std::size_t i = 0; i < parts && in.is_fine(); ++i) {
    Part part;
    part.bytes = in.number(8, std::numeric_limits<Bytes>::max() - sum);
    sum += part.bytes;
    const bool has_tensor = in.number(1, 1) == 1;
    if (!head.has_payload && part.bytes > 0) {
      RemoteRegion::Encoded encoded{};
      in.bytes(encoded);
      part.offset = in.number();
      if (!in.is_fine()) break;
      const auto region = RemoteRegion::decode(encoded);
      if (!region || region->access == RemoteAccess::write)
        return no_head(fmt::format("segment {} in memory that nobody may read", i));
      if (part.offset > region->bytes || part.bytes > region->bytes - part.offset)
        return no_head(fmt::format("segment {} is {} bytes at {} of memory of {}", i, part.bytes,
                                   part.offset, region->bytes));
      part.region = *region;
    }
    if (has_tensor) part.tensor = read_tensor(in);
    if (in.is_fine() && part.tensor && !part.tensor->fits(part.bytes))
      return no_head(fmt::format("segment {} has a tensor beyond its {} bytes", i, part.bytes));
    head.parts.push_back(part);
  }
  if (!in.is_fine())
    return no_head("its head is too short, or has a number that is larger than allowed");
  if (parts == 0) return no_head("it has no segments");
  if (sum != head.bytes)
    return no_head(fmt::format("{} bytes in segments of {} together", head.bytes, sum));
  if (head.place != 0 && (parts != 1 || sum == 0 || head.has_payload))
    return no_head("only one segment that is fetched can have a place");
  rest = in.rest();
  if (const Bytes behind = head.has_payload ? head.bytes : 0; rest.size() != behind)
    return no_head(fmt::format("{} bytes behind its head instead of {}", rest.size(), behind));
  return head;
}

std::vector<std::vector<std::byte>> cut_for_link(ConstByteSpan words) {
  std::vector<std::vector<std::byte>> pieces;
  WordWriter first;
  first.number(static_cast<std::uint64_t>(RemoteKind::message), 1);
  first.number(words.size(), kSizeBytes);
  first.bytes(words.first(std::min(words.size(), kFirstPiece)));
  pieces.push_back(first.take());
  for (std::size_t at = kFirstPiece; at < words.size(); at += kNextPiece) {
    WordWriter next;
    next.number(static_cast<std::uint64_t>(RemoteKind::more), 1);
    next.bytes(words.subspan(at, std::min(words.size() - at, kNextPiece)));
    pieces.push_back(next.take());
  }
  return pieces;
}

Result<bool> HeadAssembler::take(bool is_first, ConstByteSpan bytes) {
  if (is_first != (wanted_ == 0)) return no_head("the pieces of its head are mixed up");
  if (is_first) {
    WordReader in(bytes);
    wanted_ = static_cast<std::size_t>(in.number(kSizeBytes, RemoteHead::kMostBytes));
    words_.clear();
    bytes = in.rest();
    if (!in.is_fine() || wanted_ == 0)
      return no_head(
          fmt::format("its head has no size, or one above {} bytes", RemoteHead::kMostBytes));
  }
  if (bytes.empty() || bytes.size() > wanted_ - words_.size())
    return no_head(fmt::format("a piece of {} bytes of a head that lacks {}", bytes.size(),
                               wanted_ - words_.size()));
  words_.insert(words_.end(), bytes.begin(), bytes.end());
  if (words_.size() < wanted_) return false;
  wanted_ = 0;
  return true;
}

std::vector<std::byte> say_number(RemoteKind kind, std::uint64_t number) {
  WordWriter out;
  out.number(static_cast<std::uint64_t>(kind), 1);
  out.number(number);
  return out.take();
}

std::vector<std::byte> say_error(RemoteKind kind, const Error& error) {
  WordWriter out;
  out.number(static_cast<std::uint64_t>(kind), 1);
  write_error(out, error);
  return out.take();
}

MessageInfo info_of_call(CallKind kind, std::uint64_t number) noexcept {
  MessageInfo info;
  info.user = static_cast<std::uint64_t>(kind);
  info.correlation = number;
  return info;
}

std::vector<std::byte> encode_refusal(const Error& error) {
  WordWriter out;
  write_error(out, error);
  return out.take();
}

Result<Error> decode_refusal(ConstByteSpan payload) {
  WordReader in(payload);
  Error error = read_error(in);
  if (!in.is_over()) return fail(Code::peer_misbehaved, "it refuses a call without saying why");
  return error;
}

std::vector<std::byte> say_place(const RemotePlace& place) {
  WordWriter out;
  out.number(static_cast<std::uint64_t>(RemoteKind::place), 1);
  out.number(place.number);
  out.bytes(place.region.encode());
  return out.take();
}

Result<RemotePlace> read_place(WordReader& in) {
  RemotePlace place;
  place.number = in.number();
  RemoteRegion::Encoded encoded{};
  in.bytes(encoded);
  const auto region = RemoteRegion::decode(encoded);
  if (!in.is_over() || place.number == 0 || !region || region->access == RemoteAccess::read)
    return fail(Code::peer_misbehaved,
                fmt::format("it offers a place that cannot be (place {})", place.number));
  place.region = *region;
  return place;
}

}  // namespace gantry
