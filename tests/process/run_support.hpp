#pragma once  // tests/process/run_support.hpp: pipelines run by the real `gantry run`.

#include <support/subprocess.hpp>

namespace gantry::test {

/// A process that belongs to a run, as its environment in /proc tells.
struct StagePid {
  int pid = 0;
  std::string stage;
  std::string replica;
};

/// A folder for one test: the pipeline file, its results, and the channels (GANTRY_DIR).
class RunScratch {
 public:
  static constexpr std::uint64_t kForEver = 0;
  static constexpr std::uint64_t kBytes = 100'000;
  /// The three-stage pipeline of stages/run_stage.cpp, with two relays.
  [[nodiscard]] static std::string three_stages(std::uint64_t count, std::uint64_t bytes);

  /// `text` becomes the pipeline file; {stage} in it is run_stage, {out} results().
  [[nodiscard]] Command command(const std::string& text, std::vector<std::string> arguments = {});
  [[nodiscard]] Ended run(const std::string& text, std::vector<std::string> arguments = {});

  [[nodiscard]] std::string results() const { return directory_.file("results"); }
  [[nodiscard]] std::string read_results() const;
  [[nodiscard]] std::string channels() const { return directory_.file("channels"); }

  /// The processes of all runs in channels() that have not ended, grandchildren included.
  [[nodiscard]] std::vector<StagePid> stages() const;
  [[nodiscard]] int pid_of(const std::string& stage, const std::string& replica = "0") const;

  /// The guard of the run in channels(); 0: there is none.
  [[nodiscard]] int guard_pid() const;

  /// What a run left behind: processes (runner and guard included), files in channels(), and
  /// entries in /dev/shm. Empty when all is well.
  [[nodiscard]] std::vector<std::string> left_behind() const;

 private:
  ScratchDirectory directory_;
};

/// The last line of `text` that is not empty.
[[nodiscard]] std::string last_line(const std::string& text);

}  // namespace gantry::test
