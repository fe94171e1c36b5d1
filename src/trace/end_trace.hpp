#pragma once  // trace/end_trace.hpp: the ring of one end of a channel, or of a thread with spans.

#include <gantry/engine.hpp>
#include <mutex>

#include "base/fork.hpp"
#include "trace/probes.hpp"
#include "trace/tracer.hpp"

namespace gantry::trace {

/// The message that this thread received last, while somebody records: what it sends next is said
/// to come of it.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): the thread's own
[[gnu::tls_model("initial-exec")]] extern constinit thread_local MessageId last_received;

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
  /// A moment of one message: `publish`, `release`.
  void note(EventKind kind, std::uint64_t sequence) noexcept {
    write({read_ticks(), 0, what(kind), sequence});
  }
  void woke(std::int32_t peer) noexcept {
    write({read_ticks(), 0, what(EventKind::wake), 0, 0, static_cast<std::uint32_t>(peer)});
  }
  /// `name`: kMostName + 1 bytes, zeros behind the name.
  void spanned(std::uint64_t begin, const std::array<char, Span::kMostName + 1>& name) noexcept;

 private:
  /// A ring file of this process.
  struct Mapped {
    Mapped(std::uint64_t run_of, void* at, std::uint32_t events) noexcept;
    ~Mapped();
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;

    std::uint64_t run;
    bool has_ticks;
    RingHeader* header;
    Bytes bytes;
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

/// The number of a channel by its producer's page: of all processes of this machine, those who have
/// that memory have that number, and no others.
[[nodiscard]] std::uint64_t channel_of(int page_descriptor) noexcept;

}  // namespace gantry::trace
