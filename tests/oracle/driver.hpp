#pragma once  // oracle/driver.hpp: a program that plays seeds: its words, its workers, its
              // progress.

#include <functional>
#include <string_view>
#include <vector>

#include "oracle/board.hpp"

namespace gantry::oracle {

/// What is played, and for how long.
struct Plan {
  std::uint64_t first = 1, last = ~std::uint64_t{0};
  std::uint64_t seconds = 0;  ///< 0: until `last`.
  std::uint64_t jobs = 0;     ///< Set by read_words(); as many as there are CPUs unless said.
  std::string theme;          ///< Empty: all.
  bool is_verbose = false;
};

/// What the workers share.
struct Office {
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> done{0};  // seeds; played: each of their repetitions
  std::atomic<std::uint64_t> played{0}, failed{0}, choices{0}, switches{0};
  Pulse pulse;
};

template <class Value>
struct Word {
  std::string_view name;
  Value* value;
};
using Flags = std::vector<Word<bool>>;
using Numbers = std::vector<Word<std::uint64_t>>;

[[nodiscard]] std::uint64_t number_in(const std::string& text);
/// Reads --seeds, --seconds, --from, --jobs, --theme, --verbose, and those that the program has
/// besides. Throws Trouble.
[[nodiscard]] Plan read_words(int count, char** words, Flags flags, Numbers numbers);

/// Says it above the line that the first process draws.
void say(std::string_view text);

[[nodiscard]] Office& make_office();

enum class RunEnd { well, died, interrupted };
using PlaySeed = std::function<void(std::uint64_t)>;
/// Starts the workers, shows how far they are, and waits for them. `begin(index)` is called in each
/// worker; what it returns plays the seeds. `Pulse::is_over` or Ctrl-C has them end.
[[nodiscard]] RunEnd run_workers(const Plan& plan, Office& office, const char* name,
                                 const std::function<PlaySeed(unsigned)>& begin);

}  // namespace gantry::oracle
