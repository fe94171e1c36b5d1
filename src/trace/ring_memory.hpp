#pragma once  // trace/ring_memory.hpp: the mapping of a ring file, which somebody may cut off.

#include <gantry/types.hpp>

#include "base/result.hpp"

namespace gantry::trace {

// Where a file was cut off, a write ends the process by SIGBUS. A handler has memory of the process
// in the ring's place before the write runs again: the writer goes on, and nobody reads it.
//   I1  A range is in the table from before its first write until after its last.
//   I2  The handler takes only what stood in the table before and after it read it, by the same
//       address.

/// A file in memory, to be written by any thread. Move-only.
class RingMemory {
 public:
  /// Errors: `system`: it cannot be mapped; `unsupported`: too many rings, or no handler.
  [[nodiscard]] static Result<RingMemory> map(int file, Bytes bytes);
  RingMemory(RingMemory&& other) noexcept;
  RingMemory& operator=(RingMemory&&) = delete;
  ~RingMemory();

  /// Has memory of the process in the file's place, which goes: writes that are late go there.
  /// False: there is none, and all stays as it was.
  bool retire() noexcept;

  [[nodiscard]] void* data() const noexcept { return at_; }
  [[nodiscard]] Bytes size() const noexcept { return bytes_; }

 private:
  RingMemory(void* at, Bytes bytes) noexcept : at_(at), bytes_(bytes) {}
  void* at_;
  Bytes bytes_;
  bool is_known_ = false;  // to the handler
};

}  // namespace gantry::trace
