#pragma once  // open/file_ios.hpp: all ways to read and write files, and the best one here.

#include <gantry/file.hpp>

namespace gantry {

/// io_uring, or the plain way with the reason why.
[[nodiscard]] Result<std::shared_ptr<FileIo>> best_file_io();

}  // namespace gantry
