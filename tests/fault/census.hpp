#pragma once  // fault/census.hpp: what this process and its runtime directory hold, to compare.

#include <cstddef>
#include <string>

namespace gantry::fault {

/// Counted when no channel is open.
struct Census {
  std::size_t descriptors = 0;
  std::size_t shared_mappings = 0;  ///< Of memfds.
  std::size_t threads = 0;
  std::size_t files = 0;  ///< In the runtime directory.
  friend bool operator==(const Census&, const Census&) = default;
};
[[nodiscard]] Census take_census(const std::string& directory);
[[nodiscard]] std::string to_string(const Census& census);

/// Bytes of heap in use.
[[nodiscard]] std::size_t heap_in_use() noexcept;

}  // namespace gantry::fault
