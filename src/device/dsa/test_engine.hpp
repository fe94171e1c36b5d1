#pragma once  // dsa/test_engine.hpp: the engine on a device model that a test watches and misleads.

#include <functional>

#include "device/dsa/dsa_engine.hpp"
#include "support/dsa/model_queue.hpp"
#include "support/dsa/test_model.hpp"

namespace gantry::dsa {

/// What a test does to a queue's descriptors on their way to the model. The engine's lock guards
/// it.
struct Meddling {
  std::function<void(Descriptor&)> change = [](Descriptor&) {};
  std::vector<Descriptor> seen;  ///< As they were before the change; a batch's own and those of its
                                 ///< list.
  int error = 0;                 ///< Not 0: nothing is accepted, for this reason.
  bool silent = true;            ///< The answer of close().
  std::function<void(QueueTraits&)> claim = [](QueueTraits&) {};
};

class MeddlingQueue final : public WorkQueue {
 public:
  MeddlingQueue(std::unique_ptr<WorkQueue> queue, std::shared_ptr<Meddling> meddling)
      : queue_(std::move(queue)), meddling_(std::move(meddling)), traits_(queue_->traits()) {
    meddling_->claim(traits_);
  }
  const QueueTraits& traits() const noexcept override { return traits_; }
  Taken submit(std::span<const Descriptor> descriptors) noexcept override {
    if (meddling_->error != 0) return {0, meddling_->error};
    std::vector<Descriptor> changed(descriptors.begin(), descriptors.end());
    for (Descriptor& descriptor : changed) {
      meddling_->seen.push_back(descriptor);
      if (descriptor.opcode() == Opcode::batch) in_list(descriptor);
      meddling_->change(descriptor);
    }
    return queue_->submit(changed);
  }
  bool close() noexcept override { return queue_->close() && meddling_->silent; }
  Result<std::unique_ptr<WorkQueue>> reopen() const override { return queue_->reopen(); }

 private:
  void in_list(const Descriptor& batch) {
    auto* list = reinterpret_cast<Descriptor*>(batch.source);
    for (std::uint32_t i = 0; i < batch.size; ++i) {
      meddling_->seen.push_back(list[i]);
      meddling_->change(list[i]);
    }
  }
  std::unique_ptr<WorkQueue> queue_;
  std::shared_ptr<Meddling> meddling_;
  QueueTraits traits_;
};

struct RigOptions {
  Entrance entrance = Entrance::enqcmd;
  ModelOptions model{};
  DsaOptions engine{};
};

/// Engine, model and one lane. Without a helper unless asked for, so that things happen in order.
struct Rig {
  std::shared_ptr<Meddling> meddling = std::make_shared<Meddling>();
  std::shared_ptr<DeviceModel> model;
  std::shared_ptr<DsaEngine> engine;
  std::unique_ptr<Lane> lane;

  explicit Rig(RigOptions options = {}, std::function<void(QueueTraits&)> claim = nullptr) {
    if (options.entrance == Entrance::movdir64b) options.model.kind = QueueKind::dedicated;
    if (claim) meddling->claim = std::move(claim);
    options.engine.helper = false;
    model = make_model(options.model);
    engine = *make_dsa_engine(
        std::make_unique<MeddlingQueue>(*make_model_queue(model, options.entrance), meddling),
        options.engine);
    lane = *engine->open_lane();
  }

  Completion run(Move move) {
    Completion completion;
    move.completion = &completion;
    const auto ticket = lane->submit(move, SubmitMode::synchronous);
    EXPECT_TRUE(ticket) << to_string(ticket.error());
    if (ticket) {
      EXPECT_EQ(lane->wait(*ticket), completion.outcome);
    }
    return completion;
  }
};

inline constexpr auto kShortLimit = std::chrono::milliseconds(20);

}  // namespace gantry::dsa
