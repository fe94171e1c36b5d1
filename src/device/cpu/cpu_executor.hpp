#pragma once  // device/cpu/cpu_executor.hpp: executes operations in the calling thread, kernels
              // with a team.

#include "device/cpu/cpu_device.hpp"
#include "device/cpu/work_team.hpp"
#include "device/ordered_queue.hpp"

namespace gantry {

struct CpuKernelState final : KernelState {
  CpuKernelState(DeviceToken owner, const std::string& called, CpuKernel callable)
      : KernelState(owner, called), call(std::move(callable)) {}
  const CpuKernel call;
};

class CpuExecutor final : public Executor {
 public:
  using Before = std::function<Result<void>(std::string_view)>;

  /// `lane`: copies; null: memcpy().
  CpuExecutor(std::shared_ptr<WorkTeam> team, std::unique_ptr<Lane> lane, Before before)
      : team_(std::move(team)), lane_(std::move(lane)), before_(std::move(before)) {}

  [[nodiscard]] std::size_t depth() const noexcept override { return 1; }
  [[nodiscard]] Result<void> check(const Operation& operation) override;
  void begin(const std::shared_ptr<Operation>& operation, const std::shared_ptr<QueueCore>& queue,
             bool follows) noexcept override;

 private:
  [[nodiscard]] Result<void> execute(const Operation& operation);
  [[nodiscard]] Result<void> move_rows(const Operation& operation);
  [[nodiscard]] Result<void> move_now(const Move& move);
  [[nodiscard]] Result<void> launch(const Operation& operation);

  const std::shared_ptr<WorkTeam> team_;
  const std::unique_ptr<Lane> lane_;
  const Before before_;
};

inline constexpr Bytes kCpuLocalBytes = Bytes{16} << 20;  // of each thread: no more than a cache

}  // namespace gantry
