#pragma once  // runtime/lazy_engine.hpp: an engine that is made when its first lane is opened.

#include <functional>
#include <gantry/engine.hpp>
#include <mutex>
#include <optional>

namespace gantry {

/// Until then it costs nothing: no thread, no device. Meanwhile it answers with `facts`.
class LazyEngine final : public Engine {
 public:
  struct Facts {
    std::string_view name;
    Capabilities capabilities;
  };
  using Make = std::function<Result<std::shared_ptr<Engine>>()>;
  LazyEngine(Facts facts, Make make) : facts_(std::move(facts)), make_(std::move(make)) {}

  std::string_view name() const noexcept override { return facts_.name; }
  Capabilities capabilities() const override {
    return made() ? made()->capabilities() : facts_.capabilities;
  }
  Bytes load() const noexcept override { return made() ? made()->load() : 0; }
  Result<std::unique_ptr<Lane>> open_lane(const LaneOptions& options) override;
  EngineReport report() const noexcept override {
    return made() ? made()->report() : EngineReport{};
  }

  /// The engine behind it, made if need be. A refusal is remembered.
  [[nodiscard]] Result<std::shared_ptr<Engine>> get();

 private:
  [[nodiscard]] Engine* made() const noexcept {
    return made_.load(std::memory_order_acquire);  // [M]
  }

  Facts facts_;
  Make make_;
  std::mutex mutex_;
  std::optional<Result<std::shared_ptr<Engine>>> engine_;
  std::atomic<Engine*> made_{nullptr};  // pair [M]: the engine is complete before it is shown
};

}  // namespace gantry
