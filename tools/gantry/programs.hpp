#pragma once  // tools/gantry/programs.hpp: where the programs are that make up `gantry`.

#include <filesystem>
#include <string_view>

namespace gantry::cli {

/// The folder of `gantry`, whichever of its programs this process runs.
[[nodiscard]] std::filesystem::path gantry_folder();
/// Where its other programs are.
[[nodiscard]] std::filesystem::path libexec_folder();
/// Of `gantry`, or of one of the others.
[[nodiscard]] std::filesystem::path path_of_program(std::string_view name);

/// This process becomes `program`, and keeps its id. Returns only on failure, with errno.
[[nodiscard]] int become(const std::filesystem::path& program, char** arguments);

}  // namespace gantry::cli
