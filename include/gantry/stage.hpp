#pragma once  // gantry/stage.hpp: the ends of a stage of `gantry run`, and their description.

#include <gantry/channel.hpp>
#include <gantry/engine.hpp>
#include <span>
#include <string>
#include <vector>

namespace gantry {

/// Connections between the stages of a run.
enum class Transport {
  gantry,  ///< Channels.
  pipe     ///< Pipes of the kernel.
};
[[nodiscard]] GANTRY_API std::string_view to_string(Transport transport) noexcept;
/// Reads "gantry" or "pipe". Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<Transport> parse_transport(std::string_view text);
/// Lists the transports.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> transports();

/// Options of a stage's ends.
struct StageOptions {
  int interrupt_descriptor = -1;  ///< As EndOptions::interrupt_descriptor.
};

/// A stage's receiving end. It merges its connections, one for each replica of the sending stage.
class GANTRY_API StageInput {
 public:
  StageInput(StageInput&&) noexcept;
  StageInput& operator=(StageInput&&) noexcept;
  ~StageInput();

  /// Returns the next message of any connection; `closed` when every sender has ended. One thread
  /// at a time. Over pipes, a message not released before the next receive() costs a buffer.
  [[nodiscard]] Result<Message> receive(Deadline deadline = Deadline::never());

  class Impl;
  explicit StageInput(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

/// A stage's sending end, with one connection for each replica of the receiving stage. Messages go
/// to the connections in turn; those without a credit are skipped.
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
  /// Sends several parts as one message, as Producer::send(). Pipes copy all parts, so they arrive
  /// as one segment, and SendOptions::mode has no effect.
  [[nodiscard]] Result<void> send(Draft draft, const SendOptions& options = {});
  /// The pool of a channel's payload, as Producer::pool(). Errors: `unsupported` over pipes, and if
  /// the receiving stage has replicas, since each connection then has its own pool.
  [[nodiscard]] Result<Pool> pool() const;
  /// Ends the stream on every connection and waits until everything has been received.
  [[nodiscard]] Result<void> close(Deadline deadline = Deadline::never());

  class Impl;
  explicit StageOutput(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Opens the input that `gantry run` gave this process under `name`. Errors: `not_found` (with the
/// existing ends, or because `gantry run` did not start the program).
[[nodiscard]] GANTRY_API Result<StageInput> stage_input(std::string_view name,
                                                        const StageOptions& options = {});
/// Opens the output `name`. Errors: `not_found` if the stage does not have it.
[[nodiscard]] GANTRY_API Result<StageOutput> stage_output(std::string_view name,
                                                          const StageOptions& options = {});

// ---- how launchers describe a stage's ends ------------------------------------------------------

/// One end as a launcher describes it to a stage.
struct StageEndpoint {
  /// One connection of the end, to one process of the stage at the other side.
  struct Link {
    std::string address;          ///< Channel name (gantry), or descriptor number (pipe).
    int metrics_descriptor = -1;  ///< Inherited page for the end's counters; -1: none.
  };
  std::string channel;                      ///< Name by which the stage opens the end.
  bool output = false;                      ///< False: an input.
  Transport transport = Transport::gantry;  ///< Transport of all its connections.
  unsigned slots = 8;       ///< Messages in flight on each connection, 1 to 64; ignored by pipes.
  Bytes budget_bytes = 0;   ///< Payload memory of each connection; 0: as PoolOptions::budget_bytes.
  std::vector<Link> links;  ///< One for each process at the other side.
  /// For an output: conversion of its tensors, as text for As::parse(). Empty: none.
  std::string as = {};
};

/// Environment variable with the result of encode_stage_endpoints().
inline constexpr const char* kStageEndpointsVariable = "GANTRY_STAGE_ENDS";
/// Environment variable with the names of the images kept in $GANTRY_DIR, separated by commas.
inline constexpr const char* kStageImagesVariable = "GANTRY_STAGE_IMAGES";
/// File in $GANTRY_DIR with the token of the run's bridges, if connections lead to other hosts
/// (NAME@HOST).
inline constexpr const char* kStageTokenFile = ".bridge-token";
/// Encodes the ends as one line of text, for the environment.
[[nodiscard]] GANTRY_API std::string encode_stage_endpoints(std::span<const StageEndpoint> ends);
/// Decodes a line of encode_stage_endpoints(). Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<std::vector<StageEndpoint>> decode_stage_endpoints(
    std::string_view text);

/// The ends of this process; empty if `gantry run` did not start it. Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<std::vector<StageEndpoint>> own_stage_endpoints();

}  // namespace gantry
