#pragma once  // gantry/engine.hpp: moves, and the engines that execute them.

#include <gantry/types.hpp>

namespace gantry {

/// A request to an engine. Source and destination stay valid and unchanged until it has ended,
/// and must not overlap.
struct Move {
  enum class Kind { copy, fill };
  Kind kind = Kind::copy;
  std::byte* destination = nullptr;
  const std::byte* source = nullptr;  ///< For `copy`.
  Bytes bytes = 0;
  std::byte value{};  ///< For `fill`.

  [[nodiscard]] static Move copy(ByteSpan destination, ConstByteSpan source) noexcept {
    return {Kind::copy, destination.data(), source.data(),
            source.size() < destination.size() ? source.size() : destination.size(), std::byte{}};
  }
  [[nodiscard]] static Move fill(ByteSpan destination, std::byte value) noexcept {
    return {Kind::fill, destination.data(), nullptr, destination.size(), value};
  }
};

/// A move's place in its engine's lane, counted from 1. A plain value; 64 bits never wrap.
enum class Ticket : std::uint64_t {};
enum class Outcome { pending, done, failed };

/// Who made a copy; the order is that of the counters in Metrics.
enum class CopyEngine : std::uint8_t { inline_, thread, kernel };
inline constexpr std::size_t kCopyEngines = 3;
[[nodiscard]] std::string_view to_string(CopyEngine engine) noexcept;

struct EngineReport {
  std::uint64_t moves = 0;  ///< Ended.
  std::uint64_t bytes = 0;
  std::uint64_t helper_cpu_ns = 0;  ///< CPU time of the engine's own threads.
};

/// Anything that executes moves. Moves of one engine end in the order of their tickets.
/// Every member may be called from any thread. Destruction ends all submitted moves first.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  [[nodiscard]] virtual CopyEngine kind() const noexcept = 0;

  /// Takes a move on. Errors: `invalid_argument` (null or overlapping ranges); `busy` does not
  /// exist: a full queue makes the caller wait for room.
  [[nodiscard]] virtual Result<Ticket> submit(const Move& move) = 0;

  /// Does bounded work towards ending moves in the calling thread; returns how many ended.
  virtual std::size_t poll() = 0;

  [[nodiscard]] virtual Outcome outcome(Ticket ticket) const noexcept = 0;

  /// Waits for one move; only after `deadline` is the answer `pending`.
  [[nodiscard]] virtual Outcome wait(Ticket ticket, Deadline deadline) = 0;

  [[nodiscard]] virtual EngineReport report() const noexcept = 0;
};

}  // namespace gantry
