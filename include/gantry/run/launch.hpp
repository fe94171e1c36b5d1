#pragma once  // gantry/run/launch.hpp: how launchers tell a stage which ends it has.

#include <gantry/run/stage.hpp>
#include <span>
#include <string>
#include <vector>

namespace gantry {

/// One end as a launcher describes it to a stage.
struct StageEndpoint {
  /// One connection of the end, to one process of the stage at its other side.
  struct Link {
    std::string address;          ///< Channel name (gantry), descriptor number (pipe).
    int metrics_descriptor = -1;  ///< Inherited; the end counts in that page.
  };
  std::string channel;                      ///< The name by which the stage opens it.
  bool output = false;                      ///< Else it is an input.
  Transport transport = Transport::gantry;  ///< Of all its links.
  unsigned slots = 8;       ///< Messages under way on each link, 1 to 64; pipes ignore it.
  Bytes budget_bytes = 0;   ///< Payload memory of each link; 0: as PoolOptions.
  std::vector<Link> links;  ///< One for each process at the other side.
  /// Of an output: what its tensors become, as As::parse() reads it. Empty: as they are sent.
  std::string as = {};
};

/// Where the process finds what encode_stage_endpoints() returned.
inline constexpr const char* kStageEndpointsVariable = "GANTRY_STAGE_ENDS";
/// Names of the images that are kept in $GANTRY_DIR, with commas between them.
inline constexpr const char* kStageImagesVariable = "GANTRY_STAGE_IMAGES";
/// In $GANTRY_DIR: the token of the run's bridges, where links lead to other hosts (NAME@HOST).
inline constexpr const char* kStageTokenFile = ".bridge-token";
/// The ends as one line of text, for the environment.
[[nodiscard]] GANTRY_API std::string encode_stage_endpoints(std::span<const StageEndpoint> ends);
/// Reads that line. Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<std::vector<StageEndpoint>> decode_stage_endpoints(
    std::string_view text);

/// The ends of this process; empty when `gantry run` did not start it.
[[nodiscard]] GANTRY_API Result<std::vector<StageEndpoint>> own_stage_endpoints();

}  // namespace gantry
