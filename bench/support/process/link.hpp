#pragma once  // bench/support/process/link.hpp: how a forked process of a benchmark is commanded.

#include <array>
#include <functional>
#include <optional>
#include <type_traits>

#include "../system/posix.hpp"

namespace gantry::bench {

/// Parent to child: serve or make `warmups` trips, then `trips` that count. No more commands: the
/// link is closed.
struct Command {
  std::uint64_t warmups = 0;
  std::uint64_t trips = 0;
  bool stamped = false;  ///< Stamps are wanted, of at most Stamps::kMost trips, and no figures.
};

/// When each trip that counts began (asking end), or was read whole (answering end). Both ends
/// read the same clock.
struct Stamps {
  static constexpr std::size_t kMost = 1000;
  std::array<std::int64_t, kMost> ns{};
};

/// What send() takes by itself, medians and a percentile of its trips.
struct SendTimes {
  double p50_ns = 0;
  double p99_ns = 0;
  double cpu_p50_ns = 0;  ///< CPU time of the calling thread: not what others ran on its CPU.
};

/// Child to parent: that it is ready, what a command gave, or why it gives up.
struct Answer {
  enum class Kind : std::uint32_t { ready, measured, failed };
  Kind kind = Kind::ready;
  double p50_ns = 0;
  double p99_ns = 0;
  double p999_ns = 0;
  SendTimes send;
  double prepare_ns = 0;         ///< Median CPU time of preparing a trip.
  double cpu_ns = 0;             ///< Of the trips that count and their preparing.
  double compute_speed = 0;      ///< Median, of the undisturbed one; where the case computes.
  double peak_bytes = 0;         ///< The most memory that the process had; where that counts.
  std::array<char, 400> text{};  ///< Why it `failed`, or how it went about it; ends in 0.

  [[nodiscard]] static Answer failure(std::string_view text) noexcept;
  void say(std::string_view what) noexcept;  ///< In `text`, cut off if need be.
};

/// One end of the connection between parent and child; keeps records apart.
class Link {
 public:
  [[nodiscard]] static Result<std::pair<Link, Link>> make();
  /// The end that another program left to this one as that descriptor.
  [[nodiscard]] static Link inherited(int descriptor) { return Link(Descriptor(descriptor)); }

  /// False when the other end is gone.
  bool send(const Command& command) { return send_record(&command, sizeof command); }
  bool send(const Answer& answer) { return send_record(&answer, sizeof answer); }
  bool send(const Stamps& stamps) { return send_record(&stamps, sizeof stamps); }
  /// Blocks; nothing when the other end is gone.
  template <class Record>
  [[nodiscard]] std::optional<Record> receive() {
    static_assert(std::is_trivially_copyable_v<Record>);
    Record record;
    if (!receive_record(&record, sizeof record)) return std::nullopt;
    return record;
  }

  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  void close() noexcept { socket_.reset(); }
  /// Ends the connection for good, even if processes forked meanwhile have copies of this end.
  void hang_up() noexcept;

 private:
  explicit Link(Descriptor socket) noexcept : socket_(std::move(socket)) {}
  bool send_record(const void* record, Bytes size);
  bool receive_record(void* record, Bytes size);

  Descriptor socket_;
};

/// What a process does that is ready: obeys until the link ends or something fails, which is
/// reported. `stamps`: what it sends after the answer of a command that wants them.
void obey_commands(Link& link, const std::function<Result<Answer>(const Command&)>& obey,
                   const Stamps* stamps = nullptr);

}  // namespace gantry::bench
