#pragma once  // channel/producer/second_copier.hpp: a thread that copies some of a large message's
              // chunks.

#include <chrono>
#include <gantry/engine.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "base/fork.hpp"
#include "channel/producer/shared_chunks.hpp"
#include "channel/wire/waiter.hpp"

namespace gantry {

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
