#pragma once  // dsa/device_queue.hpp: the kernel's work queues: which there are, why one cannot be
              // used, and one opened by its device file.

#include <sys/types.h>

#include <vector>

#include "device/dsa/descriptor.hpp"
#include "device/dsa/work_queue.hpp"

namespace gantry::dsa {

/// Calls to the kernel and the CPU; a test can answer instead. All but the last two answer as the
/// system calls do, by -1 or MAP_FAILED and errno.
class DeviceCalls {
 public:
  DeviceCalls() = default;
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;
  virtual ~DeviceCalls() = default;

  [[nodiscard]] virtual PortalFeatures features() const noexcept { return portal_features(); }
  virtual int open(const char* path) noexcept;
  virtual void* map(int file) noexcept;
  virtual void unmap(void* portal) noexcept;
  virtual ssize_t write(int file, ConstByteSpan descriptors) noexcept;
  [[nodiscard]] virtual bool enqcmd(void* portal, const Descriptor& descriptor) noexcept {
    return dsa::enqcmd(portal, descriptor);
  }
  virtual void movdir64b(void* portal, const Descriptor& descriptor) noexcept {
    dsa::movdir64b(portal, descriptor);
  }
};

/// What /sys says about a queue.
struct QueueFacts {
  std::string name;    ///< "wq0.1"
  std::string device;  ///< "dsa0"
  std::string path;    ///< "/dev/dsa/wq0.1"
  QueueKind kind = QueueKind::shared;
  unsigned entries = 0;
  unsigned version = 1;
  Bytes max_transfer_bytes = 0;
  std::uint32_t max_batch = 0;
};

/// Opens the queue: by the portal if the CPU has the instruction and the kernel allows the mapping,
/// else by write(). A descriptor that does nothing proves either; its answer is waited for
/// `patience` at most. Errors name the queue, the reason and the cure: `permission_denied`, `busy`
/// (dedicated and open elsewhere), `not_found`, `timed_out` (no answer), `unsupported` (no
/// entrance), `system`.
[[nodiscard]] Result<std::unique_ptr<WorkQueue>> open_device_queue(
    const QueueFacts& facts, const std::shared_ptr<DeviceCalls>& calls,
    std::chrono::nanoseconds patience = std::chrono::seconds(1));

/// The fields of EngineStatus.
struct DsaStatus {
  bool usable = false;
  std::string why;
  std::string mend;
};

/// Finds the queues that programs may use: enabled, of type user, SVA on; shared ones first, then
/// by size. `root` is put before /sys and /dev. Errors, each with its cure: `unsupported` (no
/// device, no driver, SVA off), `not_found` (none is enabled, or only the kernel's).
[[nodiscard]] Result<std::vector<QueueFacts>> find_queues(const std::string& root = "");

/// Opens the first that can be opened. Errors: as find_queues(), else of the first that failed.
[[nodiscard]] Result<std::unique_ptr<WorkQueue>> open_any_queue(
    const std::string& root = "",
    const std::shared_ptr<DeviceCalls>& calls = std::make_shared<DeviceCalls>());

/// Opens one and closes it again. Call it before an engine is made, since a dedicated queue can be
/// open only once.
[[nodiscard]] DsaStatus probe(
    const std::string& root = "",
    const std::shared_ptr<DeviceCalls>& calls = std::make_shared<DeviceCalls>());
/// What the probe says about a usable queue.
[[nodiscard]] std::string describe(const QueueTraits& traits);

}  // namespace gantry::dsa
