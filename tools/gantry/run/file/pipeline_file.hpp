#pragma once  // tools/gantry/run/file/pipeline_file.hpp: reads and checks a pipeline file.

#include "run/file/pipeline.hpp"
#include "run/file/substitute.hpp"

namespace gantry::run {

/// Pure: touches neither files nor processes. `overrides` replace values of [settings] as they are.
/// Each error is one line that begins with the place in the file; docs/formats/pipeline-file.md has
/// the rules. A text that is not TOML is an error; what else is wrong goes to `mistakes`, and the
/// pipeline then is what could be read.
[[nodiscard]] Result<Pipeline> parse_pipeline(std::string_view text, const Source& source,
                                              const std::vector<Setting>& overrides,
                                              Mistakes& mistakes);

/// As parse_pipeline(), for a file.
[[nodiscard]] Result<Pipeline> read_pipeline(const std::string& path,
                                             const std::vector<Setting>& overrides,
                                             Mistakes& mistakes);

/// "key=value" of the command line.
[[nodiscard]] Result<Setting> parse_override(std::string_view text);

}  // namespace gantry::run
