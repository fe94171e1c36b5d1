#pragma once  // dsa/dsa_engine.hpp: Intel DSA executes moves.

#include <gantry/engine.hpp>

#include "device/dsa/work_queue.hpp"

namespace gantry::dsa {

struct DsaOptions {
  Bytes streaming_from = Bytes{4} << 20;  ///< Moves from this size on go past the cache.
  Bytes part_bytes = Bytes{512} << 10;    ///< Largest descriptor: others wait no longer for it.
  Bytes align_from = 4096;  ///< From this size on the CPU does a head of under 64 bytes.
  std::chrono::nanoseconds time_limit{5'000'000'000};  ///< The time that the device has to answer.
  std::chrono::nanoseconds full_limit{1'000'000};      ///< How long a queue may be full of others'
                                                       ///< work.
  unsigned fault_limit = 64;                           ///< Most page faults of one part.
  enum class Populate : std::uint8_t {
    after_faults,  ///< Makes pages present for a while after one was missing.
    always,        ///< Of every move that is not `resident`, before it is tried.
  } populate = Populate::after_faults;
  bool helper = true;  ///< A thread, asleep unless needed, so that moves end without poll().
};

/// Counts the ways that moves went.
struct DsaCounts {
  Entrance entrance = Entrance::enqcmd;
  bool simulated = false;
  std::string failed;  ///< Why the device is no longer used; empty while it is.
  std::uint64_t descriptors = 0;
  std::uint64_t batches = 0;
  std::uint64_t submissions = 0;
  std::uint64_t full = 0;          ///< Submissions refused because the queue was full.
  std::uint64_t page_faults = 0;   ///< Resumed, or done by the CPU.
  std::uint64_t batch_faults = 0;  ///< In the list of a batch; resumed.
  std::uint64_t populated = 0;     ///< Parts whose pages this engine made present.
  std::uint64_t refused = 0;       ///< Descriptors that the device or its entrance refused.
  std::uint64_t to_cpu = 0;        ///< Parts that the CPU did or finished, without heads.
  std::uint64_t heads = 0;         ///< Heads that the CPU did to align the rest.
  std::uint64_t lost = 0;          ///< Parts of which nobody knows how much was done.
};

class DsaEngine : public Engine {
 public:
  [[nodiscard]] virtual DsaCounts counts() const = 0;
  /// The queue and the way to it, for display.
  [[nodiscard]] virtual std::string about() const = 0;
};

/// Named "dsa", or "dsa (simulated)" on a model. Errors: `invalid_argument`; `system` (no handler
/// of page faults); `out_of_memory`.
[[nodiscard]] Result<std::shared_ptr<DsaEngine>> make_dsa_engine(std::unique_ptr<WorkQueue> queue,
                                                                 const DsaOptions& options = {});

}  // namespace gantry::dsa
