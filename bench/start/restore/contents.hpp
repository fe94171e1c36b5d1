#pragma once  // bench/start/restore/contents.hpp: the memory of programs that are worth saving.

#include <array>
#include <gantry/snapshot.hpp>
#include <string>

#include "../../support/system/posix.hpp"

namespace gantry::bench {

inline constexpr const char* kMemory = "memory";  ///< The one region of each.

/// What is made.
struct ContentOrder {
  Bytes bytes = 0;         ///< At least kFewestBytes.
  std::string guest = {};  ///< A file that is a guest's memory.
  int interrupt_descriptor = -1;
};
inline constexpr Bytes kFewestBytes = Bytes{1} << 20;

/// A kind of memory; the same for each call, but for addresses in it. Errors of `make`:
/// `interrupted`, `system`; `not_found`, if it needs a program that is not here.
struct Contents {
  std::string_view case_name;
  Result<Snapshot> (*make)(const ContentOrder& order);
};

/// An open-addressing table of keys and row numbers, and the strings of the rows behind it.
[[nodiscard]] Result<Snapshot> make_hash_index(const ContentOrder& order);
/// Images as a model takes them: 3x224x224, normalised.
[[nodiscard]] Result<Snapshot> make_fp32_batch(const ContentOrder& order);
/// The writable memory of a Python process that has about so many bytes. `not_found`: no python3.
[[nodiscard]] Result<Snapshot> make_python_heap(const ContentOrder& order);
/// A file's bytes.
[[nodiscard]] Result<Snapshot> make_guest(const ContentOrder& order);

inline constexpr std::string_view kGuest = "restore/guest";
/// All of them, the order of the report.
inline constexpr std::array kContents = {Contents{"restore/hash-index", make_hash_index},
                                         Contents{"restore/python-heap", make_python_heap},
                                         Contents{"restore/fp32-batch", make_fp32_batch},
                                         Contents{kGuest, make_guest}};

/// Memory of zeros of at least so many bytes.
[[nodiscard]] Result<Snapshot> make_zeros(Bytes bytes);

}  // namespace gantry::bench
