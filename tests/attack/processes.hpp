#pragma once  // attack/processes.hpp: the processes beside the attacked one. They are forked while
              // it has no other thread, and wait to be told.

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "attack/attackers.hpp"
#include "core/channel/test_child.hpp"

namespace gantry::attack {

/// Whoever takes longer hangs, and is ended.
inline constexpr unsigned kHungSeconds = 40;

void* map_shared(std::size_t bytes);
void unmap_shared(void* at, std::size_t bytes) noexcept;

/// A word that forked processes share.
template <class Value>
class SharedWord {
 public:
  SharedWord() : word_(new(map_shared(sizeof *word_)) std::atomic<Value>{}) {}
  ~SharedWord() { unmap_shared(word_, sizeof *word_); }
  SharedWord(const SharedWord&) = delete;
  SharedWord& operator=(const SharedWord&) = delete;
  [[nodiscard]] std::atomic<Value>& operator*() const noexcept { return *word_; }

 private:
  std::atomic<Value>* word_;
};

void await(const std::atomic<bool>& flag);

/// Attacks from begin() on, until this object goes.
class Attacker {
 public:
  /// `cpus`: where it is to run; empty: anywhere.
  Attacker(const Attack& attack, const std::string& directory, const std::vector<int>& cpus = {});
  void begin() const { *begin_ = true; }
  [[nodiscard]] unsigned blows() const { return *blows_; }
  /// It was to go on, and did not.
  [[nodiscard]] bool has_ended() const;

 private:
  SharedWord<bool> begin_;
  SharedWord<unsigned> blows_;
  test::Child child_;
};

/// Beats every 2 ms; when a beat is late by 10 ms or more, the machine stood still.
class Pulse {
 public:
  Pulse();
  /// For how long it did so far, in all. Waits for a beat that begins after the call.
  [[nodiscard]] std::chrono::nanoseconds stood_still() const;

 private:
  [[noreturn]] void beat() const;
  SharedWord<std::uint64_t> beats_, stood_still_ns_;
  test::Child child_;
};

/// How long the calling thread was ready to run, so far, and had no CPU. Nothing where the kernel
/// does not tell.
[[nodiscard]] std::chrono::nanoseconds waited_for_cpu();

/// The calling thread, and those that it starts from now on, run there.
void run_on(const std::vector<int>& cpus);

}  // namespace gantry::attack
