#include "core/engine/thread/thread_engine.hpp"

#include "core/base/result.hpp"
#include "core/engine/check.hpp"
#include "core/engine/fault_guard.hpp"
#include "core/engine/thread/thread_lane.hpp"

namespace gantry {
namespace {

class ThreadEngine final : public Engine {
 public:
  explicit ThreadEngine(std::shared_ptr<ThreadCore> core) noexcept : core_(std::move(core)) {}

  std::string_view name() const noexcept override { return "thread"; }
  Capabilities capabilities() const override {
    using enum Move::Kind;
    return {true, {copy, fill, reshape}, 64};
  }
  Bytes load() const noexcept override { return core_->load(); }
  EngineReport report() const noexcept override { return core_->report(); }

  Result<std::unique_ptr<Lane>> open_lane(const LaneOptions& options) override {
    GANTRY_TRY(check_lane(options));
    return guarded([&]() -> Result<std::unique_ptr<Lane>> {
      auto lane = std::make_unique<ThreadLane>(core_, options);
      GANTRY_TRY(lane->open());
      return lane;
    });
  }

 private:
  std::shared_ptr<ThreadCore> core_;
};

}  // namespace

Result<std::shared_ptr<Engine>> make_thread_engine(const ThreadOptions& options) {
  if (options.workers.empty() || options.workers.size() > kMaxWorkers)
    return fail(Code::invalid_argument, fmt::format("{} copy threads: 1 to {} are possible",
                                                    options.workers.size(), kMaxWorkers));
  if (!install_fault_guard()) return fail_errno("installing the handler of page faults");
  GANTRY_ASSIGN(auto core, ThreadCore::make(options));
  return guarded([&]() -> Result<std::shared_ptr<Engine>> {
    return std::make_shared<ThreadEngine>(std::move(core));
  });
}

}  // namespace gantry
