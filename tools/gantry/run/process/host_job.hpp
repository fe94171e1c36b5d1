#pragma once  // tools/gantry/run/process/host_job.hpp: what `gantry run` tells an agent.

#include <chrono>

#include "run/file/pipeline.hpp"

namespace gantry::run {

/// What the agents of a run share. It travels by standard input only.
struct HostJob {
  std::string token;  ///< Of all bridges of the run.
  std::chrono::nanoseconds connect_within{};
};

/// The first line for the agent of `host`, without its end: the pipeline file as it was read here.
/// Errors: `invalid_argument` for what is no UTF-8, or too long.
[[nodiscard]] Result<std::string> encode_job(const HostJob& job, const Pipeline& pipeline,
                                             std::size_t host);

/// The job as an agent has it.
struct AgentJob {
  HostJob job;
  Pipeline pipeline;
  std::size_t host = 0;
};
[[nodiscard]] Result<AgentJob> decode_job(std::string_view line);

/// The second line: by host, where its bridge is reached.
[[nodiscard]] std::string encode_bridges(const std::vector<std::string>& bridges);
[[nodiscard]] Result<std::vector<std::string>> decode_bridges(std::string_view line,
                                                              const Pipeline& pipeline);

/// Longer jobs are refused: one must fit into a pipe.
inline constexpr std::size_t kMostJobBytes = 512 << 10;

/// 32 random bytes as text.
[[nodiscard]] Result<std::string> make_token();
/// Puts it where the stages of the run in `directory` find it (kStageTokenFile).
[[nodiscard]] Result<void> write_token(const std::string& directory, const std::string& token);

}  // namespace gantry::run
