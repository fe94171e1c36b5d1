#pragma once  // output_file.hpp: writes files whole or not at all.

#include <filesystem>

#include "messages.hpp"

namespace vision {

/// Makes the folder if needed and checks that files can be made in it.
[[nodiscard]] Result<void> prepare_folder(const std::filesystem::path& folder);

/// Writes under another name beside `file` and renames; on an error nothing is left behind.
[[nodiscard]] Result<void> write_file(const std::filesystem::path& file, ConstByteSpan content);

}  // namespace vision
