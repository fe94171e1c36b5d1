#pragma once  // bench/memory/pattern.hpp: in what order blocks of what sizes come and go.

#include <memory>
#include <vector>

#include "contest.hpp"
#include "team.hpp"

namespace gantry::bench {

struct Pattern {
  enum class Kind {
    fixed,   ///< One block at a time, always of `bytes`.
    many,    ///< `blocks` of them acquired, then all released.
    random,  ///< Up to `bytes`, kWindow of them alive; the same sizes for everyone.
  };
  static constexpr std::size_t kWindow = 16;
  static constexpr std::size_t kSizes = 128;  ///< Of the random sequence, which then repeats.

  Kind kind = Kind::fixed;
  std::string name;  ///< As in the case: "fixed/8 KiB", "random".
  Bytes bytes = 0;   ///< Of each block, or the largest.
  std::size_t blocks = 1;

  /// Acquisitions (with their releases) that one trip of one of `threads` threads makes.
  [[nodiscard]] std::size_t steps(unsigned threads) const noexcept;
  /// Blocks that one of `threads` threads holds at a time.
  [[nodiscard]] std::size_t alive(unsigned threads) const noexcept;
  /// The most bytes that all threads hold at a time.
  [[nodiscard]] Bytes footprint(unsigned threads) const noexcept;
};

/// Sizes from 1 to `most`, uniformly; the same for the same `thread`.
[[nodiscard]] std::vector<Bytes> random_sizes(Bytes most, unsigned thread);

/// For the compiler: `value` has been used, and memory may have changed.
template <class Value>
inline void keep(const Value& value) noexcept {
  asm volatile("" : : "r"(value) : "memory");
}

/// One thread's turns of a pattern. A Hand is what one thread acquires and releases with:
///   Held: what it has acquired; default-made it is nothing, and says so by `operator bool`.
///   `bool acquire(Bytes, Held&)`, false when it failed; `void release(Held&)`;
///   `Error error()`: of the failure.
template <class Hand>
class alignas(128) Player {  // two threads' players share no cache line
 public:
  using Held = typename Hand::Held;

  Player(Hand hand, const Pattern& pattern, unsigned threads, unsigned thread)
      : hand_(std::move(hand)), pattern_(pattern), held_(pattern.alive(threads)) {
    if (pattern.kind == Pattern::Kind::random) sizes_ = random_sizes(pattern.bytes, thread);
  }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player() {
    for (Held& held : held_)
      if (held) hand_.release(held);
  }

  Result<void> play(std::uint64_t trips) {
    const bool well = pattern_.kind == Pattern::Kind::fixed  ? fixed(trips)
                      : pattern_.kind == Pattern::Kind::many ? repeat(trips, &Player::many)
                                                             : repeat(trips, &Player::random);
    if (well) return {};
    return Unexpected(hand_.error());
  }

 private:
  bool repeat(std::uint64_t trips, bool (Player::*once)()) {
    for (std::uint64_t trip = 0; trip < trips; ++trip)
      if (!(this->*once)()) return false;
    return true;
  }
  bool fixed(std::uint64_t trips) {
    Held held{};  // here, where no other thread's are beside it
    for (std::uint64_t trip = 0; trip < trips; ++trip) {
      if (!hand_.acquire(pattern_.bytes, held)) return false;
      hand_.release(held);
    }
    return true;
  }
  bool many() {
    for (Held& held : held_)
      if (!hand_.acquire(pattern_.bytes, held)) return false;
    for (Held& held : held_) hand_.release(held);
    return true;
  }
  bool random() {
    for (std::size_t step = 0; step < sizes_.size(); ++step) {
      Held& held = held_[step % held_.size()];
      if (held) hand_.release(held);
      if (!hand_.acquire(sizes_[step], held)) return false;
    }
    return true;
  }

  Hand hand_;
  Pattern pattern_;
  std::vector<Held> held_;
  std::vector<Bytes> sizes_;
};

/// A pattern by several threads at once; `make(thread)` makes each thread's hand.
template <class Hand>
class PatternRunner final : public Runner {
 public:
  template <class Make>
  PatternRunner(const Pattern& pattern, unsigned threads, const std::vector<int>& cpus,
                const Make& make)
      : team_(threads, cpus) {
    for (unsigned thread = 0; thread < threads; ++thread)
      players_.push_back(std::make_unique<Player<Hand>>(make(thread), pattern, threads, thread));
  }

  Result<double> run(std::uint64_t trips) override {
    auto took = team_.run([&](unsigned member) { return players_[member]->play(trips); });
    if (!took) return took;
    return *took / static_cast<double>(trips);
  }

 private:
  std::vector<std::unique_ptr<Player<Hand>>> players_;
  Team team_;  // ends before what it works on
};

}  // namespace gantry::bench
