#pragma once  // file/uring/file_io.hpp: files by io_uring.

#include <gantry/file.hpp>

namespace gantry {

/// Reads or writes a range as several requests in flight together. Errors: `unsupported` where
/// io_uring is switched off or too old, or not in this build.
[[nodiscard]] Result<std::shared_ptr<FileIo>> make_uring_file_io();

}  // namespace gantry
