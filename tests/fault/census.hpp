#pragma once  // fault/census.hpp: what this process and its runtime directory hold, to compare.

#include <cstddef>
#include <functional>
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

/// It must become `before` again: a thread that was joined may be seen for a moment longer, a
/// descriptor may be closed by another thread. `meanwhile` is called until then. Throws Trouble.
void check_census(const std::string& directory, const Census& before,
                  const std::function<void()>& meanwhile);

/// Bytes of heap in use.
[[nodiscard]] std::size_t heap_in_use() noexcept;

}  // namespace gantry::fault
