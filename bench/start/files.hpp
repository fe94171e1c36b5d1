#pragma once  // bench/start/files.hpp: files that are read whole, and whether the page cache has
              // them.

#include <string>

#include "../support/system/posix.hpp"

namespace gantry::bench {

/// Opens a file for reading; `flags` besides.
[[nodiscard]] Result<Descriptor> open_to_read(const std::string& path, int flags = 0);

/// Fills `bytes` from the file's byte `offset` on. Errors: `system`, also where the file ends
/// before.
[[nodiscard]] Result<void> read_at(const Descriptor& file, Bytes offset, ByteSpan bytes);

/// What went wrong with that file, unless it is Ctrl-C.
[[nodiscard]] Error of_file(const std::string& path, Error error);

/// Pages of the file that the page cache has, as mincore() says.
[[nodiscard]] Result<std::size_t> cached_pages(const std::string& path);

/// Has the page cache read all of the file.
[[nodiscard]] Result<void> make_warm(const std::string& path);
/// Writes the file to its disk, drops its pages from the page cache and looks that none is left.
/// Errors: `unsupported` with how many stay.
[[nodiscard]] Result<void> make_cold(const std::string& path);

}  // namespace gantry::bench
