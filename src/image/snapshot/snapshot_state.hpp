#pragma once  // image/snapshot/snapshot_state.hpp: what a snapshot consists of.

#include <mutex>

#include "image/snapshot/fault_watch.hpp"

namespace gantry {

struct GANTRY_LOCAL Snapshot::State {
  explicit State(snapshot::Memory made) noexcept : memory(std::move(made)) {}
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Begins to load.
  [[nodiscard]] Result<void> start(const Image& image, snapshot::Checked tables,
                                   const RestoreOptions& options);
  [[nodiscard]] Result<void> record(bool own_accesses_only);
  [[nodiscard]] Result<void> settled();
  /// Waits until everything is there, and watches own memory no more.
  [[nodiscard]] Result<void> prepare_save();
  [[nodiscard]] std::vector<std::uint64_t> touched();
  [[nodiscard]] RestoreReport report();
  /// Errors: what ended the loading; `invalid_argument` in a child of fork().
  [[nodiscard]] Result<void> wait(snapshot::PageLoader::What what, Deadline deadline) const;

  snapshot::Memory memory;
  const ForkGuard fork_guard;
  std::unique_ptr<snapshot::PageLoader> loader;  // null: it was made here

 private:
  [[nodiscard]] bool is_whole() const { return loader == nullptr || loader->is_whole(); }
  void end_watch();

  std::string why_not_lazy_;
  mutable std::mutex mutex_;  // of all below
  std::unique_ptr<snapshot::FaultWatch> watch_;
  bool has_recorded_ = false;           // or does
  std::vector<std::uint64_t> touched_;  // when no watch has them
  std::size_t faults_ = 0;              // of watches that are gone
};

}  // namespace gantry
