#pragma once  // stage/stage_link.hpp: what each transport implements for a stage's ends.

#include <gantry/run/launch.hpp>
#include <memory>

#include "channel/wire/meter.hpp"

namespace gantry {

class GANTRY_LOCAL StageInput::Impl {
 public:
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  virtual ~Impl() = default;
  virtual Result<Message> receive(Deadline deadline) = 0;
};

class GANTRY_LOCAL StageOutput::Impl {
 public:
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  virtual ~Impl() = default;
  virtual Result<Loan> loan(Bytes size, Deadline deadline) = 0;
  virtual Result<void> publish(Loan&& loan) = 0;
  virtual Result<void> send(ConstByteSpan payload, Deadline deadline) = 0;
  virtual Result<void> close(Deadline deadline) = 0;
};

using InputImpl = std::unique_ptr<StageInput::Impl>;
using OutputImpl = std::unique_ptr<StageOutput::Impl>;

[[nodiscard]] Result<InputImpl> open_gantry_input(const StageEndpoint&, const StageOptions&);
[[nodiscard]] Result<OutputImpl> open_gantry_output(const StageEndpoint&, const StageOptions&);
[[nodiscard]] Result<InputImpl> open_pipe_input(const StageEndpoint&, const StageOptions&);
[[nodiscard]] Result<OutputImpl> open_pipe_output(const StageEndpoint&, const StageOptions&);
[[nodiscard]] Result<InputImpl> open_zmq_input(const StageEndpoint&, const StageOptions&);
[[nodiscard]] Result<OutputImpl> open_zmq_output(const StageEndpoint&, const StageOptions&);

/// Opens libzmq when first called, so that only this transport needs it. Errors: `unsupported` with
/// what to install.
[[nodiscard]] Result<void> zmq_usable();

/// The name for errors: "channel 'NAME'".
[[nodiscard]] std::string quoted(const StageEndpoint& end);

/// The page in which a link counts: the launcher's, or one of its own.
[[nodiscard]] Result<Metrics> open_metrics(const StageEndpoint& end,
                                           const StageEndpoint::Link& link);

/// Counts a received payload that the kernel copied. `sent`, `asked`: ticks; the sender's value is
/// not trusted. The hand-off runs from the later of the two until now, when the payload is in hand,
/// whole.
void count_received(Meter& meter, Bytes bytes, std::uint64_t sent, std::uint64_t asked);
/// Counts a sent payload; the kernel's copy is inside the receiver's hand-off.
void count_sent(Meter& meter, Bytes bytes);

}  // namespace gantry
