#pragma once  // image/snapshot/memory_reader.hpp: what a snapshot's memory holds, without touching
              // it.

#include "image/snapshot/memory.hpp"

namespace gantry::snapshot {

/// Reads pages whatever the program has done to their mapping (mprotect, MADV_DONTNEED of shared
/// memory), and raises no faults. Everything is there, and own memory is not watched any more.
class MemoryReader {
 public:
  /// `memory` outlives it. Errors: `permission_denied` (own memory is read by way of /proc), others
  /// of open(2).
  [[nodiscard]] static Result<MemoryReader> make(const Memory& memory);
  [[nodiscard]] Result<void> read(std::uint64_t page, ByteSpan into) const;
  /// The next pages from `page` on that were ever made; none: {pages(), 0}. Errors: `system`.
  [[nodiscard]] Result<Run> made_from(std::uint64_t page) const;

 private:
  explicit MemoryReader(const Memory& memory) noexcept : memory_(&memory) {}
  [[nodiscard]] std::uint64_t first_page() const noexcept;

  const Memory* memory_;
  Fd contents_, page_map_;  // of own memory: /proc's mem and pagemap
};

}  // namespace gantry::snapshot
