#pragma once  // fault/image_child.hpp: a process that is killed on purpose, and what it says first.

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/base/os/fd.hpp"
#include "fault/arm.hpp"

namespace gantry::fault {

using Micros = std::chrono::microseconds;

/// What must never be: names the run that it ends.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How a process is ended by its own hand; whoever started it may kill it besides.
struct Strike {
  std::uint64_t step = 0;     ///< At so many passed steps of the channel; 0: at none.
  std::optional<int> call{};  ///< At the first system call of this number.
};

/// In shared memory, for both of them.
struct Board {
  FaultCounts counts;
  std::array<char, 500> trouble{};
};

/// What work is given to talk with whoever started it.
class Talk {
 public:
  Talk(int tells, int hears) noexcept : tells_(tells), hears_(hears) {}
  void tell() const;                                           ///< One more told() there.
  void hear() const;                                           ///< Waits for its go().
  [[nodiscard]] int heard() const noexcept { return hears_; }  ///< Readable: it said go().

 private:
  int tells_, hears_;
};

/// Work in a process of its own. It returns what is wrong with it, or nothing. The destructor kills
/// and reaps.
class Child {
 public:
  using Work = std::function<std::string(const Talk&)>;
  /// Whoever starts one has no threads.
  Child(std::string role, const Work& work, const Strike& strike = {});
  Child(Child&&) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  void go() const;    ///< One hear() returns.
  void await_told();  ///< Waits for one tell(); Broken if that does not come.
  /// True: it ended within that time.
  [[nodiscard]] bool ends_within(Micros time) const;
  /// Kills it, unless it has ended. True: it was killed, now or by its own hand. Broken if it said
  /// that something is wrong, or fails otherwise.
  [[nodiscard]] bool kill();
  void finish();  ///< Waits for its end. Broken if that is not a good one.
  [[nodiscard]] std::uint64_t steps() const noexcept;  ///< That it has passed.
  [[nodiscard]] Micros age() const noexcept;           ///< Since it was started.
  [[nodiscard]] int pid() const noexcept { return pid_; }

 private:
  [[noreturn]] void live(const Work& work, const Strike& strike, int tells, int hears);
  [[nodiscard]] bool reap();
  [[noreturn]] void hung(const char* at) const;

  std::string role_;
  Board* board_;
  pid_t pid_ = -1;
  Fd process_, told_, going_;
  std::chrono::steady_clock::time_point born_;
};

}  // namespace gantry::fault
