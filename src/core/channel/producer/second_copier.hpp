#pragma once  // channel/producer/second_copier.hpp: a thread that copies some of a large message's
              // chunks.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <gantry/engine.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/os/fork.hpp"
#include "core/channel/wire/waiter.hpp"

namespace gantry {

// The owner, who also tells the consumers, and the second thread take chunks in turn, each when it
// is done with its last one. One word says which chunk is next and which the second has in hand.
//   I1  A chunk is taken once: whoever moves `next` past it has it.
//   I2  prefix() counts a chunk of the second only after its bytes: the owner's acquire sees the
//       release with which the second puts it down. [D]
//   I3  The second touches a place of a window only after the owner saw it passed: allow()
//       releases, the second acquires before it takes. [A]
//   I4  After stop() the second takes at most one chunk more; this class does not know when it
//   left.
class SharedChunks {
 public:
  static constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max() - 1;

  explicit SharedChunks(std::uint32_t count) noexcept : count_(count) {}

  // ---- the owner

  /// Chunks below `limit` have a place.
  void allow(std::uint64_t limit) noexcept {
    limit_.store(static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, count_)),
                 std::memory_order_release);  // I3 [A]
  }
  [[nodiscard]] std::optional<std::uint32_t> take() noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);  // its own chunk needs no order
    while (next_of(word) < limit_.load(std::memory_order_relaxed))
      if (word_.compare_exchange_weak(word, word + kNext, std::memory_order_relaxed))
        return next_of(word);
    return std::nullopt;
  }
  /// Chunks from the front that have been copied. The owner must have none in hand.
  [[nodiscard]] std::uint32_t prefix() const noexcept {
    const std::uint64_t word = word_.load(std::memory_order_acquire);  // I2 [D]
    return std::min(next_of(word), in_hand(word));
  }
  /// Chunks that may be taken and have not been.
  [[nodiscard]] std::uint32_t left() const noexcept {
    const std::uint32_t next = next_of(word_.load(std::memory_order_relaxed));
    return std::max(limit_.load(std::memory_order_relaxed), next) - next;
  }
  void stop() noexcept { allow(0); }  // I4
  /// The second has nothing in hand, or failed.
  [[nodiscard]] bool second_is_done() const noexcept {
    return in_hand(word_.load(std::memory_order_acquire)) == kNone ||  // I2 [D]
           failed_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }

  // ---- the second

  [[nodiscard]] bool is_stopped() const noexcept {
    return limit_.load(std::memory_order_relaxed) == 0;
  }

  /// Puts down the second's chunk, and takes the next if there is one.
  [[nodiscard]] std::optional<std::uint32_t> exchange() noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint32_t next = next_of(word);
      const bool takes = next < limit_.load(std::memory_order_acquire);  // I3 [A]
      const std::uint64_t after = takes ? with(next + 1, next) : with(next, kNone);
      if (!word_.compare_exchange_weak(word, after, std::memory_order_release,  // I2 [D]
                                       std::memory_order_relaxed))
        continue;
      if (takes) return next;
      return std::nullopt;
    }
  }
  /// The chunk in hand never comes; prefix() stays below it.
  void fail() noexcept { failed_.store(true, std::memory_order_release); }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t kNext = std::uint64_t{1} << 32;

  static constexpr std::uint32_t next_of(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word >> 32);
  }
  static constexpr std::uint32_t in_hand(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word);
  }
  static constexpr std::uint64_t with(std::uint32_t next, std::uint32_t in_hand) noexcept {
    return std::uint64_t{next} << 32 | in_hand;
  }

  std::atomic<std::uint64_t> word_{with(0, kNone)};
  std::atomic<std::uint32_t> limit_{0};
  std::atomic<bool> failed_{false};
  std::uint32_t count_;
};

/// Where chunks come from and go to. `window` 0: each has a place of its own.
struct ChunkPlan {
  ByteSpan to;
  ConstByteSpan from;
  Bytes chunk = 0;
  Bytes window = 0;
  CacheUse cache = CacheUse::automatic;
  const ReshapePlan* reshape = nullptr;  ///< Chunks are of its destination, then.

  /// Of the message.
  [[nodiscard]] Bytes size() const noexcept {
    return reshape != nullptr ? reshape->destination_bytes() : from.size();
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return (size() + chunk - 1) / chunk; }
  [[nodiscard]] Move move_of(std::uint64_t index) const noexcept;
};

/// The work that the owner and the second copier share; it is the owner's.
struct SharedCopy {
  explicit SharedCopy(const ChunkPlan& of) noexcept
      : plan(of), chunks(static_cast<std::uint32_t>(of.count())) {}
  ChunkPlan plan;
  SharedChunks chunks;
  Completion failure;        // of the second copier, once has_failed()
  std::uint64_t cpu_ns = 0;  // of the second copier, after withdraw()
};

// The owner invites and withdraws, the second copier comes and goes:
//   I1  It touches `copy_` only while `state_` is `there`; withdraw() returns when it is not. [V]
//   I2  It sleeps only after it said so and then saw no invitation; invite() checks for that after
//       it has invited. [S]

/// A producer's second copying thread, for the one message that is being copied. The first
/// invitation starts the thread; it polls for a while after each visit, then sleeps.
class SecondCopier {
 public:
  SecondCopier(std::unique_ptr<Lane> lane, std::chrono::nanoseconds spin,
               std::vector<int> cpus) noexcept
      : lane_(std::move(lane)), spin_(spin), idle_spin_(spin), cpus_(std::move(cpus)) {}
  ~SecondCopier();
  SecondCopier(const SecondCopier&) = delete;
  SecondCopier& operator=(const SecondCopier&) = delete;

  /// Costs next to nothing if the copier is there already. It leaves when it has found nothing to
  /// take for a while; then invite again. Do not invite after it failed. If there is no thread to
  /// be had, nobody comes.
  void invite(SharedCopy& copy) noexcept;
  /// Stops the copier, and returns when it touches nothing of the copy any more.
  void withdraw() noexcept;

 private:
  enum State : std::uint32_t { idle, invited, there };

  void start() noexcept;
  void serve();
  void help(SharedCopy& copy);
  [[nodiscard]] bool copies(SharedCopy& copy, std::uint32_t chunk);

  ForkGuard fork_guard_;
  std::unique_ptr<Lane> lane_;
  std::chrono::nanoseconds spin_;  // of those that wait for the thread
  SpinTime idle_spin_;             // of the thread
  std::vector<int> cpus_;
  SharedCopy* copy_ = nullptr;              // [V]
  std::atomic<std::uint32_t> state_{idle};  // [V]; what the thread sleeps on [S]
  std::atomic<bool> sleeps_{false};         // [S]
  std::atomic<bool> stopping_{false};
  bool tried_ = false;  // to start the thread
  std::thread thread_;
};

}  // namespace gantry
