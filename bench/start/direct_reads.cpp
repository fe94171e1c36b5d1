#include "direct_reads.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "../support/program/sizes.hpp"
#include "files.hpp"

namespace gantry::bench {

std::string to_string(const DirectReads& reads) {
  return fmt::format("{} x {}", format_size(reads.bytes), reads.depth);
}

Result<void> share_out(std::size_t threads, std::size_t parts, const DoPart& do_part) {
  std::atomic<std::size_t> next{0};
  std::vector<Result<void>> ends(threads);
  const auto work = [&](std::size_t thread) {
    // relaxed: join() orders what the parts did before what follows.
    for (std::size_t part = 0; ends[thread] && part < parts;) {
      part = next.fetch_add(1, std::memory_order_relaxed);
      if (part < parts) ends[thread] = do_part(thread, part);
    }
  };
  {
    std::vector<std::jthread> team;
    for (std::size_t thread = 0; thread < threads; ++thread) team.emplace_back(work, thread);
  }
  const auto failed = std::ranges::find_if(ends, [](const auto& end) { return !end; });
  return failed == ends.end() ? Result<void>() : *failed;
}

Result<Region> fresh_memory(Bytes bytes) {
  return Region::create(bytes, "gantry-bench-start", {.shareable = false});
}

Result<void> read_directly(const std::string& path, const DirectReads& reads, ByteSpan into) {
  const auto file = open_to_read(path, O_DIRECT);
  if (!file) return Unexpected(file.error());
  const std::size_t parts = (into.size() + reads.bytes - 1) / reads.bytes;
  return share_out(
      std::min<std::size_t>(reads.depth, parts), parts, [&](std::size_t, std::size_t part) {
        const Bytes at = part * reads.bytes;
        return read_at(*file, at, into.subspan(at, std::min(reads.bytes, into.size() - at)));
      });
}

}  // namespace gantry::bench
