#pragma once  // rank.hpp: one rank from the beginning to the end.

#include <gantry/group.hpp>

#include "layers.hpp"

namespace tensor_parallel {

/// Keeps its group until it is destroyed: whoever says what went wrong here does so before the
/// others hear of it.
class Rank {
 public:
  explicit Rank(const Options& options) : options_(options), rank_(options.group.rank) {}

  /// Joins, prepares, times both schedules in turns, and compares what they leave. Rank 0 prints.
  /// Errors: those of the group, which are the same at all ranks; a wrong result.
  [[nodiscard]] gantry::Result<void> run();

 private:
  struct Subject {
    const char* name;
    Layers layers;
    std::vector<double> seconds{};
  };

  [[nodiscard]] gantry::Result<void> join();
  [[nodiscard]] gantry::Result<void> prepare();
  [[nodiscard]] gantry::Result<void> add(const char* name,
                                         std::optional<gantry::Schedule> schedule);
  [[nodiscard]] gantry::Result<void> take_turns();
  [[nodiscard]] gantry::Result<void> check();
  /// Waits until all ranks are here.
  [[nodiscard]] gantry::Result<void> meet();
  [[nodiscard]] bool prints() const noexcept { return rank_ == 0; }
  void print_plans() const;
  void print_times() const;

  const Options& options_;
  const unsigned rank_;
  std::shared_ptr<gantry::GemmLibrary> gemm_;
  std::optional<gantry::Group> group_;  // outlives what follows
  std::optional<gantry::PlanExecutor> meeting_;
  std::vector<Subject> subjects_;
};

}  // namespace tensor_parallel
