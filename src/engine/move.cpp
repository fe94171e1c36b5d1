#include <algorithm>
#include <gantry/engine.hpp>

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
  switch (engine) {
    case CopyEngine::inline_:
      return "inline";
    case CopyEngine::thread:
      return "thread";
    case CopyEngine::kernel:
      return "kernel";
    case CopyEngine::dsa:
      return "dsa";
  }
  return "unknown";
}

std::string_view to_string(Move::Kind kind) noexcept {
  switch (kind) {
    case Move::Kind::copy:
      return "copy";
    case Move::Kind::fill:
      return "fill";
    case Move::Kind::reshape:
      return "reshape";
  }
  return "unknown";
}

std::string_view to_string(CacheUse use) noexcept {
  switch (use) {
    case CacheUse::automatic:
      return "automatic";
    case CacheUse::reader_soon:
      return "reader_soon";
    case CacheUse::streaming:
      return "streaming";
  }
  return "unknown";
}

std::string_view to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::pending:
      return "pending";
    case Outcome::done:
      return "done";
    case Outcome::failed:
      return "failed";
  }
  return "unknown";
}

std::string_view to_string(Cause cause) noexcept {
  switch (cause) {
    case Cause::none:
      return "none";
    case Cause::unreadable:
      return "unreadable";
    case Cause::unwritable:
      return "unwritable";
    case Cause::cancelled:
      return "cancelled";
    case Cause::device:
      return "device";
  }
  return "unknown";
}

std::string_view to_string(SubmitMode mode) noexcept {
  return mode == SubmitMode::synchronous ? "synchronous" : "queued";
}

std::string_view to_string(WaitStrategy waiting) noexcept {
  switch (waiting) {
    case WaitStrategy::automatic:
      return "automatic";
    case WaitStrategy::hybrid:
      return "hybrid";
    case WaitStrategy::poll:
      return "poll";
    case WaitStrategy::sleep:
      return "sleep";
  }
  return "unknown";
}

}  // namespace gantry
