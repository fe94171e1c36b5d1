#pragma once  // bench/support/program/output_file.hpp: a file that an option names and a run ends
              // with.

#include "../system/posix.hpp"

namespace gantry::bench {

/// To be asked before anything is measured: minutes of it are not to be lost for want of a folder.
/// Changes nothing.
[[nodiscard]] Result<void> check_output(std::string_view option, const std::string& path);
/// The same for a picture, whose name says the kind: `invalid_argument` for another ending than
/// .svg.
[[nodiscard]] Result<void> check_picture(std::string_view option, const std::string& path);
[[nodiscard]] Result<void> write_output(std::string_view option, const std::string& path,
                                        std::string_view text);

}  // namespace gantry::bench
