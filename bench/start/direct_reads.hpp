#pragma once  // bench/start/direct_reads.hpp: files past the page cache, several reads under way.

#include <functional>
#include <gantry/memory.hpp>
#include <string>
#include <string_view>

#include "../support/system/posix.hpp"

namespace gantry::bench {

/// The subject that reads so and does nothing else.
inline constexpr std::string_view kDirect = "limit/o-direct";

/// How a file is read.
struct DirectReads {
  Bytes bytes = Bytes{4} << 20;  ///< Of one.
  unsigned depth = 8;            ///< Reads at once.
};
[[nodiscard]] std::string to_string(const DirectReads& reads);  ///< "4 MiB x 8".

using DoPart = std::function<Result<void>(std::size_t thread, std::size_t part)>;
/// Has so many threads take the next part, from 0 on, until all are done. Who fails takes no more.
[[nodiscard]] Result<void> share_out(std::size_t threads, std::size_t parts, const DoPart& do_part);

/// Memory as load_image() takes it, to read into.
[[nodiscard]] Result<Region> fresh_memory(Bytes bytes);

/// Opens the file with O_DIRECT and reads its first bytes into `into`, which lies on page borders,
/// a thread for each read under way.
[[nodiscard]] Result<void> read_directly(const std::string& path, const DirectReads& reads,
                                         ByteSpan into);

}  // namespace gantry::bench
