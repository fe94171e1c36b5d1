#pragma once  // engine/dsa/work_queue.hpp: the seam between the engine and whatever takes
              // descriptors: a device file or the device model.

#include <gantry/types.hpp>
#include <memory>

#include "engine/dsa/descriptor.hpp"

namespace gantry::dsa {

enum class QueueKind : std::uint8_t { shared, dedicated };

/// How descriptors get to the device.
enum class Entrance : std::uint8_t {
  enqcmd,     ///< The portal of a shared queue; says when the queue is full.
  movdir64b,  ///< The portal of a dedicated queue; an overflow is lost without a word.
  write,      ///< write(2) on the device file.
};
[[nodiscard]] constexpr std::string_view to_string(Entrance entrance) noexcept {
  return entrance == Entrance::enqcmd      ? "ENQCMD"
         : entrance == Entrance::movdir64b ? "MOVDIR64B"
                                           : "write()";
}

struct QueueTraits {
  std::string name;  ///< "wq0.1"
  QueueKind kind = QueueKind::shared;
  Entrance entrance = Entrance::enqcmd;
  std::string why;        ///< Why not a quicker entrance; empty for a portal.
  unsigned entries = 16;  ///< Descriptors that the queue holds.
  Bytes max_transfer_bytes = Bytes{2} << 20;
  std::uint32_t max_batch = 0;    ///< Descriptors of a batch; 0: it takes none by this entrance.
  std::uint32_t least_batch = 2;  ///< 1 from DSA 2 on.
  bool simulated = false;         ///< A model; figures made with it say so.
};

/// So many from the front were accepted. `error` says why the next one was not: 0 or EAGAIN, the
/// queue is full; EINVAL or EFAULT, the entrance refuses that descriptor; others, it is broken.
struct Taken {
  std::size_t count = 0;
  int error = 0;
};

/// One open work queue. One thread at a time; close() by any.
class WorkQueue {
 public:
  WorkQueue() = default;
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  /// In a fork()ed child it lets go of what was inherited, and waits for nothing.
  virtual ~WorkQueue() = default;

  [[nodiscard]] virtual const QueueTraits& traits() const noexcept = 0;
  /// What this process wrote before is seen by the device. The caller keeps to `entries`.
  [[nodiscard]] virtual Taken submit(std::span<const Descriptor> descriptors) noexcept = 0;
  /// For good. True: whatever had been accepted has ended or never will; the device writes to the
  /// memory of this process no more. May wait for the device as long as the kernel does.
  [[nodiscard]] virtual bool close() noexcept = 0;
  /// The same queue, for a process that inherited this one by fork(). Errors as at its making.
  [[nodiscard]] virtual Result<std::unique_ptr<WorkQueue>> reopen() const = 0;
};

}  // namespace gantry::dsa
