#pragma once  // image/snapshot/save.hpp: a snapshot's memory into an image.

#include "image/snapshot/memory.hpp"

namespace gantry::snapshot {

/// Writes all pages that are not zero, and those of `touched` first. Reads each page twice: what is
/// the same both times was so at one moment, between the first reading of the last page and the
/// second of the first. Errors: `invalid_argument` (a page that differs, with its number;
/// `touched`); those of write_image().
[[nodiscard]] Result<ImageFacts> save(const std::string& path, const Memory& memory,
                                      const std::vector<std::uint64_t>& touched,
                                      const ImageOptions& packing);

}  // namespace gantry::snapshot
