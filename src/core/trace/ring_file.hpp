#pragma once  // trace/ring_file.hpp: the files of a trace, and what their bytes say.

#include <algorithm>
#include <gantry/runtime.hpp>

#include "core/base/clock.hpp"
#include "core/base/result.hpp"
#include "core/sync/overwriting_ring.hpp"

namespace gantry::trace {

// In DIRECTORY/trace, which is there only while somebody records: `control`, and one ring for each
// end, "PID-START-NUMBER". All are the user's own; nothing in them is believed.

inline constexpr const char* kFolder = "trace";
inline constexpr const char* kControlFile = "control";
inline constexpr unsigned kFileMode = 0400;  // of both: so nobody writes them by mistake
inline constexpr std::uint32_t kVersion = 3;

/// Written by the recording, in one piece.
struct Control {
  static constexpr std::uint64_t kMagic = 0x314c5254'43544e47;  // "GNTCTRL1"
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t events = 0;    // of each ring
  std::uint64_t run = 0;       // not 0
  std::uint64_t until_ns = 0;  // CLOCK_MONOTONIC; then nobody records any more
  std::int64_t pid = 0;        // who records; for people
};

/// Words of an event; see encode() in end_trace.cpp and decode_event().
enum Word : std::size_t { kBegin, kDuration, kWhat, kSequence, kBytes, kCause, kCauseSequence };
inline constexpr std::size_t kWords = 7;
using Ring = OverwritingRing<kWords>;
static_assert(sizeof(Ring::Cell) == 64);                     // a line of the cache
static_assert(Span::kMostName < 4 * sizeof(std::uint64_t));  // kSequence to kCauseSequence

// Events from `step` on, and waits from Awaited::step on, have a short text where others have two
// messages, and times of CLOCK_MONOTONIC. Of their kWhat: bits 0-7 the kind, 8-15 the detail, 16
// kIsText, 32-63 a number.
inline constexpr std::uint64_t kIsText = std::uint64_t{1} << 16;
inline constexpr std::size_t kMostText = 24;  // kSequence, kCause, kCauseSequence
using ShortText = std::array<char, kMostText>;

/// For what an end waits; the detail of EventKind::wait.
enum class Awaited : std::uint8_t {
  credit = 1,
  consumer,
  message,
  landing,
  step,   // of a plan; the number, and as text its verb and rank
  ranks,  // that have not begun
  peer,   // of a link
};
/// Details of EventKind::step and arrival: the verbs of plans.
enum class StepVerb : std::uint8_t { put = 1, get, copy, gemm, reduce, fill, signal, barrier };
/// Details of EventKind::operation.
enum class QueueWork : std::uint8_t { copy_in = 1, copy_out, copy, fill, launch, record };
/// Details of EventKind::transfer and EventKind::control.
enum class Moved : std::uint8_t { put = 1, get, landed, served, sent, received };

struct RingHeader {
  static constexpr std::uint64_t kMagic = 0x31474e49'52544e47;  // "GNTRING1"
  static constexpr std::size_t kNameBytes = 80;
  static constexpr std::size_t kProcessBytes = 48;

  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t cells;
  std::uint64_t run;
  std::uint64_t start_time;  // of the process, as in /proc/PID/stat
  std::int32_t pid;
  std::uint8_t kind;       // EndKind
  std::uint8_t has_ticks;  // times are ticks, else nanoseconds, as those of kIsText always are
  std::array<char, kProcessBytes> process;
  std::array<char, kNameBytes> name;
  alignas(64) std::atomic<std::uint64_t> head;
  std::atomic<std::uint64_t> channel;      // 0: several, or none yet
  std::atomic<std::uint64_t> closed;       // 1: the end ended in the regular way
  std::atomic<std::uint64_t> waits_since;  // in the ring's time; 0: it does not sleep
  std::atomic<std::uint64_t> waits_for;    // as kWhat of a wait; bits 32-63: a process, or 0
};
inline constexpr Bytes kHeaderBytes = 512;
static_assert(sizeof(RingHeader) <= kHeaderBytes && alignof(Ring::Cell) <= kHeaderBytes);
/// Of a ring that the disk had no room for.
inline constexpr Bytes kNoRoomBytes = 1;
inline constexpr Bytes kMostRingBytes =
    kHeaderBytes + Bytes{RecordingOptions::kMostEvents} * sizeof(Ring::Cell);

/// Turns the times of rings into nanoseconds.
struct TimeScale {
  ClockPair start;
  double ns_per_tick = 1;
  std::uint64_t least_ns = 0;  ///< What lies outside is nonsense.
  std::uint64_t most_ns = ~std::uint64_t{0};

  [[nodiscard]] std::uint64_t ns_of(std::uint64_t ticks) const noexcept;
};

struct DecodedRing {
  std::uint64_t start_time = 0;
  std::string process;
  Track track;
  std::optional<Event> open_wait;  // has not ended
};

/// Nothing: no writer of ours wrote that.
[[nodiscard]] std::optional<Event> decode_event(const Ring::Event& words, std::uint64_t channel,
                                                const TimeScale& time);

/// What a field of fixed size says, up to its first zero. It may hold anything.
template <std::size_t size>
[[nodiscard]] std::string text_of(const std::array<char, size>& field) {
  return {field.begin(), std::ranges::find(field, '\0')};
}

/// Start of a process, in ticks since boot; 0: there is none.
[[nodiscard]] std::uint64_t start_time_of(std::int32_t pid);

}  // namespace gantry::trace
