#pragma once  // bench/start/loaders.hpp: the ways of bringing weights from a file into memory.

#include <gantry/memory.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "direct_reads.hpp"
#include "weights.hpp"

namespace gantry::bench {

inline constexpr std::string_view kPlain = "gantry/plain";
inline constexpr std::string_view kCompressed = "gantry/compressed";
inline constexpr std::string_view kAuto = "gantry/auto";
inline constexpr std::string_view kAttach = "gantry/attach";
inline constexpr std::string_view kAttachHuge = "gantry/attach-2MiB";
inline constexpr std::string_view kMmap = "safetensors-mmap";
inline constexpr std::string_view kReadCopy = "read-copy";
inline constexpr std::string_view kReadCopyHuge = "read-copy-2MiB";
inline constexpr std::string_view kTorchLike = "torch-like";
inline constexpr std::string_view kDecode = "limit/decode";

/// Brings all tensors into memory of its process, which is fresh, once.
class Loader {
 public:
  virtual ~Loader() = default;
  /// What is there before a start begins; not timed.
  virtual Result<void> prepare() { return {}; }
  /// Timed: from a file's name to every tensor in memory of its own.
  virtual Result<void> load() = 0;
  /// Gives back what it loaded, so that it may load once more; only of those that attach.
  virtual void drop() {}
  /// The bytes of tensor number `index`.
  [[nodiscard]] virtual ConstByteSpan tensor(std::size_t index) const = 0;
  /// How it went about it; "": there is no choice.
  [[nodiscard]] virtual std::string chosen() const { return {}; }
};

/// A way, as the benchmark lists it. `weights` outlives what is made.
struct LoaderKind {
  std::string_view name;
  WeightFile file;
  bool reads_disk;  ///< From which the file has to come; otherwise it is in memory already.
  std::unique_ptr<Loader> (*make)(const Weights& weights, const DirectReads& reads);
  std::optional<PageKind> kept{};  ///< A process keeps it in such pages; none: nobody does.
};
/// All of them, the order of the report.
[[nodiscard]] const std::vector<LoaderKind>& loader_kinds();
/// Those that several workers take.
[[nodiscard]] std::vector<LoaderKind> keep_kinds();

/// Reads every byte that was loaded. Errors: `peer_misbehaved` with the first tensor that has other
/// bytes than were made.
[[nodiscard]] Result<void> check_loaded(const Loader& loader, const Weights& weights);

// Those of each file.
[[nodiscard]] std::vector<LoaderKind> image_kinds();
[[nodiscard]] std::vector<LoaderKind> attach_kinds();
[[nodiscard]] std::vector<LoaderKind> safetensors_kinds();
[[nodiscard]] std::vector<LoaderKind> limit_kinds();

template <class Made>
[[nodiscard]] std::unique_ptr<Loader> make_loader(const Weights& weights,
                                                  const DirectReads& reads) {
  return std::make_unique<Made>(weights, reads);
}

}  // namespace gantry::bench
