#pragma once  // trace/end_trace.hpp: the ring of one end of a channel, or of whatever else has a
              // track.

#include <chrono>
#include <gantry/engine.hpp>
#include <mutex>

#include "core/base/os/fork.hpp"
#include "core/trace/probes.hpp"
#include "core/trace/tracer.hpp"

namespace gantry::trace {

/// The message that this thread received last, while somebody records: what it sends next is said
/// to come of it.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): the thread's own
[[gnu::tls_model("initial-exec")]] extern constinit thread_local MessageId last_received;

// Where a file was cut off, a write ends the process by SIGBUS. A handler has memory of the process
// in the ring's place before the write runs again: the writer goes on, and nobody reads it.
//   I1  A range is in the table from before its first write until after its last.
//   I2  The handler takes only what stood in the table before and after it read it, by the same
//       address.

/// A file in memory, to be written by any thread. Move-only.
class RingMemory {
 public:
  /// Errors: `system`: it cannot be mapped; `unsupported`: too many rings, or no handler.
  [[nodiscard]] static Result<RingMemory> map(int file, Bytes bytes);
  RingMemory(RingMemory&& other) noexcept;
  RingMemory& operator=(RingMemory&&) = delete;
  ~RingMemory();

  /// Has memory of the process in the file's place, which goes: writes that are late go there.
  /// False: there is none, and all stays as it was.
  bool retire() noexcept;

  [[nodiscard]] void* data() const noexcept { return at_; }
  [[nodiscard]] Bytes size() const noexcept { return bytes_; }

 private:
  RingMemory(void* at, Bytes bytes) noexcept : at_(at), bytes_(bytes) {}
  void* at_;
  Bytes bytes_;
  bool is_known_ = false;  // to the handler
};

/// Writes what an end does into a ring that it makes when it is first needed. While nobody records,
/// or there is no room for the ring, it does nothing. Any thread, after join(). Call where is_on().
class EndTrace {
 public:
  EndTrace() noexcept;
  EndTrace(const EndTrace&) = delete;
  EndTrace& operator=(const EndTrace&) = delete;
  ~EndTrace();

  /// Once. Without it nothing is ever recorded.
  void join(const std::string& directory, EndKind kind, std::string_view name);
  /// The channel's number; it names messages for all processes. See channel_of().
  void set_channel(std::uint64_t channel) noexcept { channel_ = channel; }

  /// All times are ticks.
  void sent(std::uint64_t begin, std::uint64_t end, std::uint64_t sequence, Bytes bytes) noexcept {
    write({begin, end - begin, what(EventKind::send), sequence, bytes, last_received.channel,
           last_received.sequence});
  }
  /// The same of a small message that was just sent. Its whole way takes a tenth of a microsecond,
  /// of which this may take a tenth. In the process that made the end, as its sender knows.
  void sent_small(std::uint64_t sequence, Bytes bytes) noexcept;
  void received(std::uint64_t begin, std::uint64_t end, std::uint64_t sequence,
                Bytes bytes) noexcept {
    last_received = {channel_, sequence};
    write({begin, end - begin, what(EventKind::receive), sequence, bytes});
  }
  void copied(std::uint64_t begin, std::uint64_t ticks, std::uint64_t sequence, Bytes bytes,
              CopyEngine engine, std::uint64_t chunks) noexcept {
    write({begin, ticks, what(EventKind::copy, static_cast<std::uint8_t>(engine), chunks), sequence,
           bytes});
  }
  void waited(std::uint64_t begin, Awaited awaited, std::int32_t peer) noexcept {
    write({begin, read_ticks() - begin, what(EventKind::wait, static_cast<std::uint8_t>(awaited)),
           0, 0, static_cast<std::uint32_t>(peer)});
  }
  /// It sleeps from now on in a wait that began then, until wakes_up().
  void falls_asleep(std::uint64_t began, Awaited awaited, std::int32_t peer) noexcept;
  void wakes_up() noexcept;
  /// A moment of one message: `publish`, `release`.
  void note(EventKind kind, std::uint64_t sequence) noexcept {
    write({read_ticks(), 0, what(kind), sequence});
  }
  void woke(std::int32_t peer) noexcept {
    write({read_ticks(), 0, what(EventKind::wake), 0, 0, static_cast<std::uint32_t>(peer)});
  }
  using Time = std::chrono::steady_clock::time_point;
  /// An event with a short text, which is cut off after kMostText bytes, in times that were read
  /// anyhow.
  struct Worked {
    EventKind kind = EventKind::step;
    std::uint8_t detail = 0;
    Time begin = {};
    Time end = {};
    std::uint32_t number = 0;
    Bytes bytes = 0;
    std::string_view text = {};
  };
  void worked(const Worked& what) noexcept;
  void spanned(std::uint64_t begin, std::string_view name) noexcept;

 private:
  /// A ring file of this process.
  struct Mapped {
    Mapped(std::uint64_t run_of, RingMemory mapped, std::uint32_t events) noexcept;
    ~Mapped();
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    void retire() noexcept;  ///< Its recording is over. Once.

    std::uint64_t run;
    bool has_ticks;
    RingMemory memory;
    bool is_counted = true;  // in what this process has mapped
    RingHeader* header;
    Ring ring;
  };

  [[nodiscard]] static constexpr std::uint64_t what(EventKind kind, std::uint8_t detail = 0,
                                                    std::uint64_t chunks = 0) noexcept {
    return static_cast<std::uint64_t>(kind) | std::uint64_t{detail} << 8 | chunks << 32;
  }
  void write(const Ring::Event& event) noexcept {
    if (fork_guard_.is_this()) slow_write(event);
  }
  void slow_write(const Ring::Event& event) noexcept;
  [[nodiscard]] Mapped* any_ring() noexcept;  // null: nobody records, or there is no room
  void slow_sent_small(std::uint64_t sequence, Bytes bytes) noexcept;
  [[nodiscard]] Mapped* slow_ring(std::uint64_t run) noexcept;
  [[nodiscard]] Result<std::unique_ptr<Mapped>> make_ring(std::uint64_t run) const;

  std::shared_ptr<Scope> scope_;
  std::uint64_t channel_ = 0;
  std::atomic<Mapped*> ring_{nullptr};  // of the newest recording; [M]
  ForkGuard fork_guard_;                // a fork's copy writes nothing
  EndKind kind_ = EndKind::producer;
  std::string name_;
  std::mutex making_;
  std::uint64_t failed_run_ = 0;               // under making_: it has no ring
  std::vector<std::unique_ptr<Mapped>> made_;  // under making_; another thread may be in an old one
};

/// A wait of an end. A recorder learns of it while it lasts, if the end sleeps in it. Nobody else
/// waits at that end meanwhile.
class OpenWait {
 public:
  OpenWait(EndTrace& trace, std::uint64_t began, Awaited awaited, std::int32_t peer) noexcept
      : trace_(trace), began_(began), awaited_(awaited), peer_(peer) {}
  ~OpenWait() { end(); }
  OpenWait(const OpenWait&) = delete;
  OpenWait& operator=(const OpenWait&) = delete;

  /// Called before each sleep.
  void falls_asleep() noexcept {
    if (!is_on()) [[likely]]
      return;
    is_open_ = true;
    trace_.falls_asleep(began_, awaited_, peer_);
  }
  /// It is over; then the event is written.
  void end() noexcept {
    if (is_open_) [[unlikely]]
      trace_.wakes_up();
    is_open_ = false;
  }

 private:
  EndTrace& trace_;
  std::uint64_t began_;
  Awaited awaited_;
  std::int32_t peer_;
  bool is_open_ = false;
};

/// The ring of what belongs to no directory, such as a link: it lies in one that this process knows
/// and in which somebody records. One thread at a time. In a child of fork() it has a new one.
class RoamingTrace {
 public:
  RoamingTrace(EndKind kind, std::string name) : kind_(kind), name_(std::move(name)) {}
  /// Writes the event, if somebody records. Call where is_on().
  void worked(const EndTrace::Worked& what) noexcept;
  /// Null: nobody records. Call where is_on().
  [[nodiscard]] EndTrace* get() noexcept;

 private:
  EndKind kind_;
  std::string name_;
  std::shared_ptr<Scope> scope_;
  std::unique_ptr<EndTrace> trace_;
  ForkGuard fork_guard_;
};

/// The number of a channel by its producer's page: of all processes of this machine, those who have
/// that memory have that number, and no others.
[[nodiscard]] std::uint64_t channel_of(int page_descriptor) noexcept;

}  // namespace gantry::trace
