#pragma once  // engine/dsa/part.hpp: a piece of a move, its descriptor, and the meaning of its
              // record.

#include <gantry/engine.hpp>
#include <optional>

#include "engine/dsa/descriptor.hpp"

namespace gantry::dsa {

struct PendingMove;

/// The piece of a move for one descriptor. Its holder changes it: the ready list, the device's
/// flights, or the thread that works on it.
struct Part {
  PendingMove* owner = nullptr;
  Bytes offset = 0;        ///< Its place in its move: from the front, or if backwards from the end.
  bool backwards = false;  ///< True if its whole move is.
  Move move;               ///< What is left of it. For CRCs `seed` is the value so far.
  CacheUse cache = CacheUse::reader_soon;
  Bytes certain = 0;  ///< Bytes done for certain, from the side that `offset` counts from.
  unsigned faults = 0;
  bool populated = false;  ///< Its pages were made present, or the caller says they are.
  bool to_cpu = false;     ///< The device is not asked again.
};

/// True if the device can do the move; not a dual copy to places that differ within their pages.
[[nodiscard]] bool device_takes(const Move& move) noexcept;

/// True if doing it again from the start gives the same: it writes nothing of what it reads.
[[nodiscard]] bool is_repeatable(const Move& move) noexcept;

/// The descriptor for what is left of `part`, to be answered in `record`.
[[nodiscard]] Descriptor describe(const Part& part, const CompletionRecord& record) noexcept;

/// What follows from a record.
struct Verdict {
  enum class Next : std::uint8_t {
    done,
    again,   ///< The rest can be submitted again once its pages are present.
    by_cpu,  ///< The device did not begin, or stopped for good; the CPU can do the rest.
    lost,    ///< How much was done is unknown, and doing it again would be wrong.
  } next = Next::done;
  std::optional<Bytes> differs_at{};  ///< compare: offset of the first difference in its move
};

/// Reads a record whose raw status is `status`, and shortens the part by what was done.
[[nodiscard]] Verdict judge(Part& part, const CompletionRecord& record,
                            std::uint8_t status) noexcept;

/// Takes `bytes` that are done off the front of what is left, or off its tail.
void shorten(Part& part, Bytes bytes, bool tail) noexcept;

}  // namespace gantry::dsa
