#pragma once  // engine/dsa/part.hpp: a piece of a move: its descriptor, and what its record means.

#include <gantry/engine.hpp>
#include <optional>

#include "engine/dsa/descriptor.hpp"

namespace gantry::dsa {

struct PendingMove;

/// One order's worth of a move. Who holds it changes it: the ready list, the device's flights, or
/// the thread that works on it.
struct Part {
  PendingMove* owner = nullptr;
  Bytes offset = 0;  ///< Where it lies in its move: from the front, or of backwards() the end.
  bool backwards = false;  ///< Its whole move is.
  Move move;               ///< What is left to do of it. Of the CRCs, `seed` is the value so far.
  CacheUse cache = CacheUse::reader_soon;
  Bytes certain = 0;  ///< Done for certain, from the side that `offset` counts from.
  unsigned faults = 0;
  bool populated = false;  ///< Its pages were made present, or the caller says so.
  bool to_cpu = false;     ///< The device is not asked again.
};

/// Whether the device can do it: not a dual copy to places that differ within their pages.
[[nodiscard]] bool device_takes(const Move& move) noexcept;

/// Doing it again from the start gives the same: nothing of what it reads is written by it.
[[nodiscard]] bool is_repeatable(const Move& move) noexcept;

/// The order for what is left of `part`, answered in `record`.
[[nodiscard]] Descriptor describe(const Part& part, const CompletionRecord& record) noexcept;

/// What comes after a record.
struct Verdict {
  enum class Next : std::uint8_t {
    done,
    again,   ///< The rest can be submitted again once its pages are there.
    by_cpu,  ///< The device did not begin, or stopped for good; the rest can be done otherwise.
    lost,    ///< How much was done is not known and doing it again would be wrong.
  } next = Next::done;
  std::optional<Bytes> differs_at{};  ///< compare: offset of the first difference in its move
};

/// Reads a record whose raw status is `status`, and shortens the part by what was done.
[[nodiscard]] Verdict judge(Part& part, const CompletionRecord& record,
                            std::uint8_t status) noexcept;

/// Takes `bytes` that are done off what is left: off its front, or its tail.
void shorten(Part& part, Bytes bytes, bool tail) noexcept;

}  // namespace gantry::dsa
