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
  /// What the kernel last said of pages. Whoever goes through the memory once has one for that.
  struct States {
    std::uint64_t page = 0;  // the first
    std::vector<std::uint64_t> words;
  };
  /// The next pages from `page` on that were ever made; none: {pages(), 0}. Errors: `system`.
  [[nodiscard]] Result<Run> made_from(std::uint64_t page, States& states) const;

 private:
  explicit MemoryReader(const Memory& memory) noexcept : memory_(&memory) {}
  [[nodiscard]] std::uint64_t first_page() const noexcept;
  [[nodiscard]] Result<std::uint64_t> state_of(std::uint64_t page, States& states) const;

  const Memory* memory_;
  Fd contents_, page_map_;  // of own memory: /proc's mem and pagemap
};

}  // namespace gantry::snapshot
