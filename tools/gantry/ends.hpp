#pragma once  // tools/gantry/ends.hpp: the ends to which put sends and from which get receives.

#include <gantry/run/launch.hpp>
#include <gantry/run/stage.hpp>
#include <gantry/runtime.hpp>
#include <variant>

#include "interrupt.hpp"

namespace gantry::cli {

/// A channel of its own, or the end that `gantry run` gave this process under the same name, over
/// whatever transport the pipeline uses.
class Sender {
 public:
  [[nodiscard]] static Result<Sender> open(const std::string& name, unsigned slots,
                                           const Interrupt& interrupt);

  [[nodiscard]] Result<void> wait_for_consumer();
  [[nodiscard]] Result<Loan> loan(Bytes size);
  [[nodiscard]] Result<void> publish(Loan&& loan);
  [[nodiscard]] Result<void> send(ConstByteSpan payload);
  [[nodiscard]] Result<void> close();

 private:
  using End = std::variant<Producer, StageOutput>;
  explicit Sender(End end) : end_(std::move(end)) {}
  End end_;
};

class Receiver {
 public:
  [[nodiscard]] static Result<Receiver> open(const std::string& name, Deadline deadline,
                                             const Interrupt& interrupt);
  [[nodiscard]] Result<Message> receive(Deadline deadline);

 private:
  using End = std::variant<Consumer, StageInput>;
  explicit Receiver(End end) : end_(std::move(end)) {}
  End end_;
};

}  // namespace gantry::cli
