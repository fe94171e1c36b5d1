#pragma once  // dsa/work_queue.hpp: the seam between the engine and the device file or model that
              // takes its descriptors, and memory that a device writes to.

#include <sys/mman.h>

#include <gantry/types.hpp>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "device/dsa/descriptor.hpp"

namespace gantry::dsa {

/// A T in present pages of its own, locked if the process may lock: a record that was swapped out
/// would never be answered. Throws std::bad_alloc.
template <class T>
class DevicePages {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  DevicePages() {
    void* at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    static_cast<void>(::mlock(at, sizeof(T)));
    value_ = new (at) T();
  }
  ~DevicePages() {
    if (value_ != nullptr) ::munmap(value_, sizeof(T));
  }
  DevicePages(const DevicePages&) = delete;
  DevicePages& operator=(const DevicePages&) = delete;

  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_; }
  /// Never frees the pages: the device may still write.
  void leave() noexcept { value_ = nullptr; }

 private:
  T* value_;
};

enum class QueueKind : std::uint8_t { shared, dedicated };

/// How descriptors reach the device.
enum class Entrance : std::uint8_t {
  enqcmd,     ///< The portal of a shared queue; says when the queue is full.
  movdir64b,  ///< The portal of a dedicated queue; loses an overflow without a word.
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
  std::string why;        ///< Why no quicker entrance is used; empty for a portal.
  unsigned entries = 16;  ///< Descriptors that the queue holds.
  Bytes max_transfer_bytes = Bytes{2} << 20;
  std::uint32_t max_batch = 0;    ///< Most descriptors of a batch; 0: no batches by this entrance.
  std::uint32_t least_batch = 2;  ///< 1 from DSA 2 on.
  bool simulated = false;         ///< A model; figures made with it say so.
};

/// `count` descriptors from the front were accepted. `error` says why the next one was not: 0 or
/// EAGAIN, the queue is full; EINVAL or EFAULT, the entrance refuses that descriptor; others, the
/// entrance is broken.
struct Taken {
  std::size_t count = 0;
  int error = 0;
};

/// One open work queue. Used by one thread at a time; any may call close().
class WorkQueue {
 public:
  WorkQueue() = default;
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  /// In a fork()ed child it lets go of what was inherited, and waits for nothing.
  virtual ~WorkQueue() = default;

  [[nodiscard]] virtual const QueueTraits& traits() const noexcept = 0;
  /// The device sees what this process wrote before. The caller keeps to `entries`.
  [[nodiscard]] virtual Taken submit(std::span<const Descriptor> descriptors) noexcept = 0;
  /// Closes for good. True: whatever was accepted has ended or never will, and the device no longer
  /// writes to the memory of this process. May wait for the device as long as the kernel does.
  [[nodiscard]] virtual bool close() noexcept = 0;
  /// Opens the same queue for a process that inherited this one by fork(). Errors: as at its
  /// making.
  [[nodiscard]] virtual Result<std::unique_ptr<WorkQueue>> reopen() const = 0;
};

}  // namespace gantry::dsa
