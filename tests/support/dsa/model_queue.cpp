#include "support/dsa/model_queue.hpp"

#include <cerrno>

#include "core/base/os/fork.hpp"
#include "core/base/result.hpp"

namespace gantry::dsa {
namespace {

QueueTraits traits_of(const ModelOptions& options, Entrance entrance) {
  QueueTraits traits;
  traits.name = "the device model";
  traits.kind = options.kind;
  traits.entrance = entrance;
  if (entrance == Entrance::write) traits.why = "asked for";
  traits.entries = options.entries;
  traits.max_transfer_bytes = options.limits.max_transfer_bytes;
  // The first version's driver takes no batches by write(); so none are sent that way.
  traits.max_batch = entrance == Entrance::write ? 0 : options.limits.max_batch;
  traits.least_batch = options.limits.version == 1 ? 2 : 1;
  traits.simulated = true;
  return traits;
}

class ModelQueue final : public WorkQueue {
 public:
  ModelQueue(std::shared_ptr<DeviceModel> model, Entrance entrance)
      : model_(std::move(model)), traits_(traits_of(model_->options(), entrance)) {}
  // A child has no copy of the model's thread, and would wait for it for ever.
  ~ModelQueue() override {
    if (!fork_guard_.is_this()) new std::shared_ptr(std::move(model_));  // NOLINT: never destroyed
  }
  ModelQueue(const ModelQueue&) = delete;
  ModelQueue& operator=(const ModelQueue&) = delete;

  const QueueTraits& traits() const noexcept override { return traits_; }

  Taken submit(std::span<const Descriptor> descriptors) noexcept override {
    if (!fork_guard_.is_this()) return {0, EPERM};
    if (traits_.entrance == Entrance::write) return submit_written(descriptors);
    Taken taken;
    for (const Descriptor& descriptor : descriptors) {
      if (traits_.entrance == Entrance::movdir64b)
        model_->movdir64b(descriptor);
      else if (model_->enqcmd(descriptor))
        return {taken.count, EAGAIN};
      ++taken.count;
    }
    return taken;
  }

  bool close() noexcept override {
    model_->drain();
    return true;
  }

  Result<std::unique_ptr<WorkQueue>> reopen() const override {
    GANTRY_ASSIGN(std::shared_ptr<DeviceModel> model, DeviceModel::create(model_->options()));
    return make_model_queue(std::move(model), traits_.entrance);
  }

 private:
  Taken submit_written(std::span<const Descriptor> descriptors) noexcept {
    const ssize_t bytes = model_->write(std::as_bytes(descriptors));
    if (bytes < 0) return {0, errno};
    return {static_cast<std::size_t>(bytes) / sizeof(Descriptor), 0};
  }

  ForkGuard fork_guard_;
  std::shared_ptr<DeviceModel> model_;
  QueueTraits traits_;
};

}  // namespace

Result<std::unique_ptr<WorkQueue>> make_model_queue(std::shared_ptr<DeviceModel> model,
                                                    Entrance entrance) {
  const bool shared = model->options().kind == QueueKind::shared;
  if (entrance != Entrance::write && shared != (entrance == Entrance::enqcmd))
    return fail(Code::invalid_argument,
                fmt::format("a {} queue has no entrance by {}", shared ? "shared" : "dedicated",
                            to_string(entrance)));
  return std::make_unique<ModelQueue>(std::move(model), entrance);
}

}  // namespace gantry::dsa
