#pragma once  // gantry/run/stage.hpp: the ends that `gantry run` hands a stage.

#include <gantry/channel/message.hpp>
#include <gantry/channel/options.hpp>
#include <gantry/engine.hpp>

namespace gantry {

/// What connects the stages of a run.
enum class Transport {
  gantry,  ///< Channels.
  pipe     ///< Pipes of the kernel.
};
[[nodiscard]] GANTRY_API std::string_view to_string(Transport transport) noexcept;
/// Reads "gantry" or "pipe". Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<Transport> parse_transport(std::string_view text);
/// Lists the transports.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> transports();

/// How a stage opens its ends.
struct StageOptions {
  int interrupt_descriptor = -1;  ///< As in EndOptions.
};

/// A stage's receiving end. It merges one link for each replica of the sending stage.
class GANTRY_API StageInput {
 public:
  StageInput(StageInput&&) noexcept;
  StageInput& operator=(StageInput&&) noexcept;
  ~StageInput();

  /// Returns the next message of any link; `closed` when every sender has ended. One thread at a
  /// time. Over pipes release a message before receiving the next, or it costs a buffer.
  [[nodiscard]] Result<Message> receive(Deadline deadline = Deadline::never());

  class Impl;
  explicit StageInput(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

/// A stage's sending end, with one link for each replica of the receiving stage. Messages go to the
/// links in turn, skipping those without credit.
class GANTRY_API StageOutput {
 public:
  StageOutput(StageOutput&&) noexcept;
  StageOutput& operator=(StageOutput&&) noexcept;
  ~StageOutput();  ///< Does not end the stream; only close() does.

  /// As Producer::loan().
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline = Deadline::never());
  /// As Producer::publish().
  [[nodiscard]] Result<void> publish(Loan&& loan, const SendOptions& options = {});
  /// As Producer::send().
  [[nodiscard]] Result<void> send(ConstByteSpan payload, const SendOptions& options = {});
  [[nodiscard]] Result<void> send(ConstByteSpan payload, Deadline deadline) {
    return send(payload, SendOptions{.deadline = deadline});
  }
  /// Sends several parts as one message, as Producer::send(). Over pipes, which copy all
  /// parts, they arrive as one segment, and SendOptions::mode means nothing.
  [[nodiscard]] Result<void> send(Draft draft, const SendOptions& options = {});
  /// The pool of a channel's payload, as Producer::pool(). Errors: `unsupported` over pipes, and
  /// where the receiving stage has replicas: each link has a pool of its own.
  [[nodiscard]] Result<Pool> pool() const;
  /// Ends the stream on every link and waits until all has been received.
  [[nodiscard]] Result<void> close(Deadline deadline = Deadline::never());

  class Impl;
  explicit StageOutput(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Opens the end that `gantry run` gave this process under `name`. Errors: `not_found` (names the
/// ends that exist, or says that `gantry run` did not start the program).
[[nodiscard]] GANTRY_API Result<StageInput> stage_input(std::string_view name,
                                                        const StageOptions& options = {});
/// Opens the output `name`. Errors: `not_found` when the stage has none.
[[nodiscard]] GANTRY_API Result<StageOutput> stage_output(std::string_view name,
                                                          const StageOptions& options = {});

}  // namespace gantry
