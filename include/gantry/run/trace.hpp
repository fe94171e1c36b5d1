#pragma once  // gantry/run/trace.hpp: what ends of channels, links, ranks and devices' queues did
              // and when, and spans of one's own.

#include <array>
#include <gantry/types.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gantry::trace {

/// Begins a span that has no block; end_span() takes what it returns. 0: nobody records.
[[nodiscard]] GANTRY_API std::uint64_t begin_span() noexcept;
/// Writes it into the trace of the calling thread. `began` 0: does nothing. See Span.
GANTRY_API void end_span(std::uint64_t began, std::string_view name) noexcept;

/// The time from here to the end of the block, under that name, in the trace of the thread. Names
/// are cut off after kMostName bytes. While nobody records it takes a few nanoseconds. A recording
/// of the directory that the environment names (see channel_directory()) has the spans of every
/// process; one of another directory, of processes that have an end of a channel, a group or a
/// Runtime there.
class Span {
 public:
  static constexpr std::size_t kMostName = 31;  ///< Bytes of a name.
  /// Begins now.
  explicit Span(std::string_view name) noexcept : began_(begin_span()) {
    if (began_ != 0) size_ = name.copy(name_.data(), name_.size());
  }
  ~Span() {
    if (began_ != 0) end_span(began_, {name_.data(), size_});
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  std::uint64_t began_;  // ticks; 0: nobody records
  std::size_t size_ = 0;
  std::array<char, kMostName + 1> name_;  // one more, which tells where a character is cut
};

// ---- recording -----------------------------------------------------------------------------

/// Whose track it is.
enum class EndKind : std::uint8_t {
  producer = 1,  ///< A sending end.
  consumer,      ///< A receiving end of one producer.
  inbox,         ///< A receiving end of many, a server's too.
  thread,        ///< A thread that has spans.
  rank,          ///< Of a group: what it does of a plan.
  link,          ///< An end of a link.
  queue          ///< Of a device.
};

/// What happened.
enum class EventKind : std::uint8_t {
  send = 1,   ///< From the call to the publication's end; of a small message the end alone.
  copy,       ///< `what`: the engine.
  publish,    ///< The message became visible.
  receive,    ///< From the call until the message was the caller's.
  wait,       ///< `what` was waited for, of `peer` if it is known.
  release,    ///< The message's memory went back to the sender.
  wake,       ///< `peer` slept and was woken.
  span,       ///< Of the user's own; `what`: its name.
  step,       ///< An operation of a plan; `what`: its verb and place, `number`: which one.
  arrival,    ///< A step of another rank's reached this one; as `step`.
  transfer,   ///< By a link; `what`: put, get; landed, served: those of the far end.
  control,    ///< A small message by a link; `what`: sent or received.
  operation,  ///< Of a device's queue; `what`: copy-in, launch of a kernel and so on.
};
[[nodiscard]] GANTRY_API std::string_view to_string(EventKind kind) noexcept;

/// A message, for all processes of the machine. 0: none.
struct MessageId {
  std::uint64_t channel = 0;   ///< One session of one producer.
  std::uint64_t sequence = 0;  ///< MessageInfo::sequence.
  friend auto operator<=>(const MessageId&, const MessageId&) = default;
};

/// What happened once, at one end or in one thread.
struct Event {
  EventKind kind = EventKind::send;  ///< It says which of the next fields count.
  std::uint64_t begin_ns = 0;        ///< CLOCK_MONOTONIC.
  std::uint64_t duration_ns = 0;     ///< 0 of what is a moment.
  MessageId message;                 ///< Of send, copy, publish, receive and release.
  MessageId cause;                   ///< send: the message that the thread had received last.
  Bytes bytes = 0;           ///< Of the payload, or of what the step, transfer or operation moved.
  std::uint32_t chunks = 0;  ///< copy
  std::uint32_t number = 0;  ///< Of a step in its plan; of a transfer at the end that began it.
  std::int32_t peer = 0;     ///< A process; 0: not known, or several.
  std::string what;          ///< As EventKind says; else empty.
};

/// What one end, one rank or one thread with spans did. Its oldest events go when its ring is full.
struct Track {
  EndKind kind = EndKind::producer;  ///< What it is the track of.
  std::string channel;               ///< Its name: of a thread, a rank, a link's far end, a queue.
  std::int32_t pid = 0;              ///< Of its process.
  std::uint64_t written = 0;         ///< Events in all.
  std::uint64_t lost = 0;            ///< Of these: overwritten, or not complete.
  bool is_closed = false;            ///< It ended in the regular way.
  std::vector<Event> events;         ///< In the order in which they were written.
};

/// A process that has a track.
struct TracedProcess {
  std::int32_t pid = 0;  ///< As in its tracks.
  std::string name;      ///< Of its stage, if `gantry run` started it; else of its program.
  std::optional<std::uint64_t> ended_ns;  ///< When the kernel said so; some ms late.
  bool died = false;                      ///< It ended with ends that it had not closed.
};

/// All that a recording has.
struct Trace {
  std::uint64_t from_ns = 0;             ///< CLOCK_MONOTONIC, as in events.
  std::uint64_t until_ns = 0;            ///< When the recording ended.
  std::vector<TracedProcess> processes;  ///< All that were seen.
  std::vector<Track> tracks;             ///< Those that could be read.
  std::vector<std::string> notes;        ///< What could not be read, for people.
};

/// How much is kept.
struct RecordingOptions {
  static constexpr unsigned kMostEvents = 1U << 20;  ///< For `events`.
  unsigned events = 1U << 13;  ///< Of each end, 64 bytes each; rounded up to a power of two.
};

/// Has the processes of one user record what they do in some runtime directories. They learn of it
/// within kNotice, new ones at once. Needs keep_up() at least every kPatience, else it ends by
/// itself, as it does when this process is killed. Move-only; records until finish() or its end.
class GANTRY_API Recording {
 public:
  static constexpr std::chrono::milliseconds kNotice{600};  ///< See above.
  static constexpr std::chrono::seconds kPatience{2};       ///< See above.

  /// A directory PATH/PREFIX* stands for all that begin so, later ones too. Errors: `busy` when
  /// another process records there; `not_found`, `permission_denied`, `system`.
  [[nodiscard]] static Result<Recording> start(const std::vector<std::string>& directories,
                                               const RecordingOptions& options = {});
  Recording(Recording&&) noexcept;
  Recording& operator=(Recording&&) noexcept;
  ~Recording();

  /// Goes on for kPatience, and notes which processes have come and ended. Errors: `not_found`:
  /// somebody removed its folder; `system`.
  [[nodiscard]] Result<void> keep_up();
  /// Ends it, reads what there is, and removes it. Rings that make no sense become notes. Errors:
  /// `not_found`: somebody removed its folder.
  [[nodiscard]] Result<Trace> finish();

 private:
  struct Impl;
  explicit Recording(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry::trace
