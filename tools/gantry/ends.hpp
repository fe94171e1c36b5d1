#pragma once  // tools/gantry/ends.hpp: the ends to which put sends and from which get receives.

#include <gantry/runtime.hpp>
#include <gantry/stage.hpp>
#include <variant>

#include "channel_options.hpp"
#include "interrupt.hpp"
#include "wait_notice.hpp"

namespace gantry::cli {

/// What put's options say of its end.
struct SenderOptions {
  unsigned slots = ProducerOptions{}.slots;
  std::optional<unsigned> consumers;
  SendMode mode = SendMode::automatic;
  std::optional<Access> access;
  std::optional<RemotePath> path;
  RemoteTimes remote;
  std::optional<As> as;
};

/// A channel of its own; in a stage the end that `gantry run` gave this process under the name,
/// over whatever transport the pipeline uses.
class Sender {
 public:
  [[nodiscard]] static Result<Sender> open(const std::string& name, const SenderOptions& options,
                                           const Interrupt& interrupt);
  /// For messages that mean nothing without those before: errors when those of a stage's output go
  /// to several replicas or come from several.
  [[nodiscard]] static Result<void> check_single_stream(const std::string& name);

  /// Waits for all the consumers that were asked for.
  [[nodiscard]] Result<void> wait_for_consumers();
  [[nodiscard]] Result<Loan> loan(Bytes size);
  [[nodiscard]] Result<void> publish(Loan&& loan);
  [[nodiscard]] Result<void> send(ConstByteSpan payload);
  [[nodiscard]] Result<void> close();
  /// What it makes of bytes without a tensor, by put's options or by the pipeline file. Empty:
  /// nothing, or it does not say what they are.
  [[nodiscard]] const std::optional<As>& as() const noexcept { return as_; }
  /// Says on a terminal that consumers have not come: all that were asked for, or any. This must
  /// outlive it, and stay in its place.
  [[nodiscard]] std::unique_ptr<WaitNotice> notice(bool wants_all) const;

 private:
  using End = std::variant<Producer, StageOutput>;
  Sender(End end, const SenderOptions& options, std::optional<As> as)
      : end_(std::move(end)),
        consumers_(options.consumers.value_or(1)),
        mode_(options.mode),
        as_(std::move(as)) {}
  [[nodiscard]] SendOptions how() const {
    SendOptions options;
    options.mode = mode_;
    return options;
  }
  End end_;
  unsigned consumers_;
  SendMode mode_;
  std::optional<As> as_;
};

/// What get's options say of its end.
struct ReceiverOptions {
  std::optional<SlowConsumer> when_slow;
  std::optional<unsigned> depth;
  std::optional<Access> access;
  std::optional<RemotePath> path;
  RemoteTimes remote;
};

class Receiver {
 public:
  [[nodiscard]] static Result<Receiver> open(const std::string& name,
                                             const ReceiverOptions& options, Deadline deadline,
                                             const Interrupt& interrupt);
  [[nodiscard]] Result<Message> receive(Deadline deadline);

 private:
  using End = std::variant<Consumer, StageInput>;
  explicit Receiver(End end) : end_(std::move(end)) {}
  End end_;
};

}  // namespace gantry::cli
