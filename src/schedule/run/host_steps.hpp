#pragma once  // schedule/run/host_steps.hpp: computing steps in this host's memory.

#include "schedule/run/places.hpp"
#include "schedule/run/step_thread.hpp"

namespace gantry {

/// Does a rank's products, copies, sums and fills on one thread, in the order of push(). One thread
/// calls.
class HostSteps {
 public:
  /// `gemm`: null if no step is a product of the host. All must outlive it. Errors: `system`,
  /// `out_of_memory`.
  [[nodiscard]] static Result<std::unique_ptr<HostSteps>> start(const Plan& plan,
                                                                const PlanPlaces& places,
                                                                GemmLibrary* gemm,
                                                                EndedSteps& ended);
  void push(std::uint32_t item, std::uint32_t step);
  /// Does a step in the calling thread if that takes less time than handing it over and nothing is
  /// before it. False: push() it.
  [[nodiscard]] bool does_at_once(std::uint32_t step);
  [[nodiscard]] StepThread& thread() noexcept { return *thread_; }

 private:
  HostSteps(const Plan& plan, const PlanPlaces& places, GemmLibrary* gemm)
      : plan_(plan), places_(places), gemm_(gemm) {}
  [[nodiscard]] Result<void> execute(const PlanStep& step) const;
  [[nodiscard]] Result<void> multiply(const PlanStep& step) const;

  const Plan& plan_;
  const PlanPlaces& places_;
  GemmLibrary* const gemm_;
  std::unique_ptr<StepThread> thread_;
};

}  // namespace gantry
