#pragma once  // bench/support/report/progress.hpp: how far a benchmark is, for the person who
              // waits.

#include <cstdio>
#include <string>

namespace gantry::bench {

/// On a terminal one bar that is redrawn; otherwise a line for each new label.
class Progress {
 public:
  Progress(std::string title, std::size_t steps, std::FILE* out = stderr);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  ///< Wipes the bar away.

  /// The next of the steps begins; `label` says what it belongs to.
  void step(const std::string& label);

 private:
  void draw_bar(const std::string& label) const;

  std::FILE* out_;
  std::string title_;
  std::string label_;
  std::size_t steps_;
  std::size_t begun_ = 0;
  bool on_terminal_;
};

}  // namespace gantry::bench
