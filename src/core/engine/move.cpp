#include <algorithm>
#include <gantry/engine.hpp>

#include "core/base/enum_text.hpp"

namespace gantry {
namespace {

Move reading(Move::Kind kind, ConstByteSpan source, Bytes bytes) noexcept {
  Move move;
  move.kind = kind;
  move.source = source.data();
  move.bytes = bytes;
  return move;
}

}  // namespace

Move Move::copy(ByteSpan destination, ConstByteSpan source) noexcept {
  Move move = reading(Kind::copy, source, std::min(source.size(), destination.size()));
  move.destination = destination.data();
  return move;
}

Move Move::fill(ByteSpan destination, std::byte value) noexcept {
  return fill(destination, 0x0101'0101'0101'0101u * std::to_integer<std::uint64_t>(value));
}

Move Move::fill(ByteSpan destination, std::uint64_t pattern) noexcept {
  Move move;
  move.kind = Kind::fill;
  move.destination = destination.data();
  move.bytes = destination.size();
  move.pattern = pattern;
  return move;
}

Move Move::reshape(ByteSpan destination, ConstByteSpan source, const ReshapePlan& plan,
                   Bytes from) noexcept {
  Move move = reading(Kind::reshape, source, destination.size());
  move.destination = destination.data();
  move.plan = &plan;
  move.plan_from = from;
  move.source_bytes = source.size();
  return move;
}

std::string_view to_string(CopyEngine engine) noexcept {
  return text_in({"inline", "thread", "kernel", "dsa"}, engine);
}

std::string_view to_string(Move::Kind kind) noexcept {
  return text_in({"copy", "fill", "reshape"}, kind);
}

std::string_view to_string(CacheUse use) noexcept {
  return text_in({"automatic", "reader_soon", "streaming"}, use);
}

std::string_view to_string(Outcome outcome) noexcept {
  return text_in({"pending", "done", "failed"}, outcome);
}

std::string_view to_string(Cause cause) noexcept {
  return text_in({"none", "unreadable", "unwritable", "cancelled", "device"}, cause);
}

std::string_view to_string(SubmitMode mode) noexcept {
  return text_in({"synchronous", "queued"}, mode);
}

std::string_view to_string(WaitStrategy waiting) noexcept {
  return text_in({"automatic", "hybrid", "poll", "sleep"}, waiting);
}

}  // namespace gantry
