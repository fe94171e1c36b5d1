#pragma once  // tools/gantry/stage_variables.hpp: environment variables that tell a stage what it
              // is.

namespace gantry::run {

inline constexpr const char* kDirectoryVariable = "GANTRY_DIR";
inline constexpr const char* kStageVariable = "GANTRY_STAGE";
inline constexpr const char* kReplicaVariable = "GANTRY_REPLICA";
inline constexpr const char* kReplicasVariable = "GANTRY_REPLICAS";

}  // namespace gantry::run
