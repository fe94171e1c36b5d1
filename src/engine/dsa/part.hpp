#pragma once  // engine/dsa/part.hpp: a piece of a move, its descriptor, and the meaning of its
              // record.

#include <gantry/engine.hpp>

#include "engine/dsa/descriptor.hpp"

namespace gantry::dsa {

struct PendingMove;

/// The piece of a move for one descriptor. Its holder changes it: the ready list, the device's
/// flights, or the thread that works on it.
struct Part {
  PendingMove* owner = nullptr;
  Bytes offset = 0;  ///< Its place in its move.
  Move move;         ///< What is left of it.
  CacheUse cache = CacheUse::reader_soon;
  Bytes certain = 0;  ///< Bytes done for certain, from its front.
  unsigned faults = 0;
  bool populated = false;  ///< Its pages were made present, or the caller says they are.
  bool to_cpu = false;     ///< The device is not asked again.
};

/// True if the device can do the move: it cannot convert.
[[nodiscard]] inline bool device_takes(const Move& move) noexcept {
  return move.kind != Move::Kind::reshape;
}

/// The descriptor for what is left of `part`, to be answered in `record`.
[[nodiscard]] Descriptor describe(const Part& part, const CompletionRecord& record) noexcept;

/// What follows from a record. A move writes nothing of what it reads, so that doing a part again
/// is right whatever the device did of it.
enum class Next : std::uint8_t {
  done,
  again,   ///< The rest can be submitted again once its pages are present.
  by_cpu,  ///< The device did not begin, stopped for good, or claims the impossible.
};

/// Reads a record whose raw status is `status`, and shortens the part by what was done.
[[nodiscard]] Next judge(Part& part, const CompletionRecord& record, std::uint8_t status) noexcept;

}  // namespace gantry::dsa
