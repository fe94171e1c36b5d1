#include "engine/check.hpp"

#include <cstring>

#include "base/result.hpp"

namespace gantry {

std::string_view to_string(CopyEngine engine) noexcept {
  switch (engine) {
    case CopyEngine::inline_:
      return "inline";
    case CopyEngine::thread:
      return "thread";
    case CopyEngine::kernel:
      return "kernel";
  }
  return "unknown";
}

Result<void> check_move(const Move& move) {
  if (move.bytes == 0) return {};
  const bool reads = move.kind == Move::Kind::copy;
  if (move.destination == nullptr || (reads && move.source == nullptr))
    return fail(Code::invalid_argument, fmt::format("a move of {} bytes with a null {}", move.bytes,
                                                    move.destination ? "source" : "destination"));
  const auto to = reinterpret_cast<std::uintptr_t>(move.destination);
  const auto from = reinterpret_cast<std::uintptr_t>(move.source);
  if (reads && from < to + move.bytes && to < from + move.bytes)
    return fail(Code::invalid_argument,
                fmt::format("a copy of {} bytes from {:#x} to {:#x}: the ranges overlap",
                            move.bytes, from, to));
  return {};
}

void execute(const Move& move, Bytes offset, Bytes bytes) noexcept {
  if (bytes == 0) return;  // null is allowed then, and memcpy's contract is not
  if (move.kind == Move::Kind::copy)
    std::memcpy(move.destination + offset, move.source + offset, bytes);
  else
    std::memset(move.destination + offset, std::to_integer<int>(move.value), bytes);
}

}  // namespace gantry
