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
  std::size_t files = 0;   ///< In the runtime directory.
  std::size_t events = 0;  ///< An acceptor keeps one for each thread that slept at the same time.
  [[nodiscard]] bool is_left_by(const Census& before) const noexcept {
    constexpr std::size_t kMostKept = 2;  // the caller's thread, and that of send_async()
    return descriptors == before.descriptors && shared_mappings == before.shared_mappings &&
           threads <= before.threads && files == before.files &&
           events <= before.events + kMostKept;
  }
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
