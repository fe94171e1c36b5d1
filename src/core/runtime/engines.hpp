#pragma once  // runtime/engines.hpp: the engines of one runtime, and the one that its channels use.

#include <gantry/runtime.hpp>
#include <mutex>

#include "core/calibration/calibration_store.hpp"
#include "core/runtime/engine_makers.hpp"

namespace gantry {

class PolicyEngine;

class Engines {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Engines>> create(const RuntimeOptions& options);

  /// Errors: `not_found`, and the reason why it cannot be used.
  [[nodiscard]] Result<std::shared_ptr<Engine>> find(std::string_view name);
  [[nodiscard]] std::shared_ptr<Engine> chosen() const { return chosen_; }
  [[nodiscard]] std::vector<EngineStatus> statuses();

  [[nodiscard]] CalibrationStatus calibration() const;
  [[nodiscard]] Result<CalibrationStatus> calibrate(const CalibrateOptions& options);

 private:
  Engines();
  [[nodiscard]] Result<void> make_auto();
  [[nodiscard]] Result<void> choose(const RuntimeOptions& options);

  // Shared with the policy's call for a calibration, which may come from any thread.
  struct Kept {
    explicit Kept(std::string machine) : store(std::move(machine)) {}
    CalibrationStore store;
    std::mutex mutex;
    bool kept = false;  // under the lock, as `note`
    std::string note;
  };
  [[nodiscard]] static Result<Calibration> measure(Kept& kept,
                                                   std::span<const std::shared_ptr<Engine>> engines,
                                                   const CalibrateOptions& options);
  [[nodiscard]] static std::optional<Calibration> at_first_use(
      Kept& kept, std::span<const std::shared_ptr<Engine>> engines);

  std::shared_ptr<Kept> kept_;
  std::vector<std::shared_ptr<Engine>> engines_;  // inline first; then LazyEngines
  std::vector<EngineMaker> makers_;
  std::vector<std::shared_ptr<LazyEngine>> lazy_;  // one of each maker
  std::shared_ptr<PolicyEngine> auto_;
  std::shared_ptr<Engine> chosen_;
  std::string fallback_;  // why the wanted engine is not the one in use
};

}  // namespace gantry
