#pragma once  // bench/start/restore/restorers.hpp: the ways of bringing a saved memory back.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../direct_reads.hpp"
#include "saved_memory.hpp"

namespace gantry::bench {

inline constexpr std::string_view kRestore = "gantry/restore";
inline constexpr std::string_view kRestoreSmall = "gantry/restore-zstd";
inline constexpr std::string_view kOnDemand = "on-demand";
inline constexpr std::string_view kReap = "reap";
inline constexpr std::string_view kReapOverlapped = "reap/overlapped";

/// Brings a memory into its process, which is fresh, once.
class Restorer {
 public:
  virtual ~Restorer() = default;
  /// Timed: from the files' names until the program may touch its pages.
  virtual Result<void> begin() = 0;
  /// Waits until what it brings by itself is there.
  virtual Result<void> finish() { return {}; }
  /// A page of the working set by its place there. Touching it may wait.
  [[nodiscard]] virtual const std::byte* working_page(std::size_t index) const = 0;
  /// All of it; empty: it brings the working set alone.
  [[nodiscard]] virtual ConstByteSpan memory() const { return {}; }
  /// How it went about it; "": there is no choice.
  [[nodiscard]] virtual std::string chosen() const { return {}; }
};

/// A way, as the benchmark lists it. `saved` outlives what is made.
struct RestorerKind {
  std::string_view name;
  std::unique_ptr<Restorer> (*make)(const SavedMemory& saved, const DirectReads& reads);
  MemoryFile file;              ///< From which the working set comes.
  bool reads_directly = false;  ///< As is quickest for it.
  bool is_limit = false;        ///< It brings the working set alone, and nobody could use it.
};
/// All of them, the order of the report.
[[nodiscard]] std::vector<RestorerKind> restorer_kinds();
/// gantry/restore from each image: it takes the one that is quickest by itself before the rounds.
[[nodiscard]] std::vector<RestorerKind> restores_from_images();

// Those of reap.cpp.
[[nodiscard]] std::unique_ptr<Restorer> make_reap(const SavedMemory& saved,
                                                  const DirectReads& reads);
[[nodiscard]] std::unique_ptr<Restorer> make_overlapped_reap(const SavedMemory& saved,
                                                             const DirectReads& reads);

// What the program does, whichever way its memory comes. Errors: `peer_misbehaved`: it has other
// bytes than were saved.
/// Reads the working set in its order.
[[nodiscard]] Result<void> touch_working_set(const Restorer& restorer, const SavedMemory& saved);
/// Reads everything in the order of memory.
[[nodiscard]] Result<void> read_everything(const Restorer& restorer, const SavedMemory& saved);

/// Reads a byte of pages of the rest that are not there yet, one by one, half a millisecond between
/// two of them, until all are there or 500 were read; what each took, in ns. Errors: `system`.
[[nodiscard]] Result<std::vector<double>> touch_rest(const Restorer& restorer,
                                                     const SavedMemory& saved);

}  // namespace gantry::bench
