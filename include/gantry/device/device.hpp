#pragma once  // gantry/device/device.hpp: what computes beside the CPU: memory, queues, events,
              // kernels.

#include <chrono>
#include <gantry/device/kernel.hpp>
#include <gantry/engine.hpp>
#include <gantry/engine/file_io.hpp>
#include <gantry/memory/registrar.hpp>
#include <initializer_list>

namespace gantry {

enum class DeviceKind : std::uint8_t { cpu, opencl, cuda };
[[nodiscard]] GANTRY_API std::string_view to_string(DeviceKind kind) noexcept;

/// What never changes of a device.
struct GANTRY_API DeviceFacts {
  std::string name;   ///< As open_device() knows it: "cpu", "opencl:0", "cuda:1".
  std::string about;  ///< For people: model, vendor, driver.
  DeviceKind kind = DeviceKind::cpu;
  Bytes memory_bytes = 0;
  Bytes max_buffer_bytes = 0;   ///< Of one buffer.
  Bytes alignment = 1;          ///< Of host memory and offsets: what is quickest.
  std::size_t max_group = 1;    ///< Work items of a group.
  Bytes local_bytes = 0;        ///< Local memory of a group, at most.
  unsigned compute_units = 1;   ///< CPUs, multiprocessors.
  bool unified_memory = false;  ///< Its memory is the host's: a copy crosses no bus.
  bool host_visible = false;    ///< DeviceBuffer::host() gives its buffers' memory.
  /// Of memory that over() makes a buffer of, a power of two; 0: it takes none.
  Bytes in_place_alignment = 0;
  bool copies_overlap = false;  ///< Copies and kernels of different queues run at the same time.
  /// Copies from and to memory that registrar() registered are quicker, or alone asynchronous.
  bool registering_pays = false;
  bool stops_kernels =
      false;  ///< cancel() and abandon() end a kernel that is running, if it looks.
};

struct DeviceMemory {
  Bytes total_bytes = 0;
  Bytes free_bytes = 0;  ///< Where a device does not tell: the total less what is allocated here.
};

// ---- buffers -------------------------------------------------------------------------------

/// Memory of a device. Move-only; dropped, it is freed when the last operation that uses it has
/// ended, or at once when there is none. Keeps its device alive. Contents of a new one: anything.
class GANTRY_API DeviceBuffer {
 public:
  DeviceBuffer() noexcept = default;
  explicit DeviceBuffer(std::shared_ptr<BufferState> state) noexcept;
  DeviceBuffer(DeviceBuffer&&) noexcept = default;
  DeviceBuffer& operator=(DeviceBuffer&&) noexcept = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() = default;

  [[nodiscard]] Bytes size() const noexcept;
  /// Its memory, where DeviceFacts::host_visible; else empty. Not while operations use it.
  [[nodiscard]] ByteSpan host() const noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<BufferState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<BufferState> state_;
};

// ---- events --------------------------------------------------------------------------------

/// When an operation ran, on the clock of Deadline, whatever clock the device has.
struct DeviceTiming {
  using Time = Deadline::Clock::time_point;
  Time submitted;
  Time began;
  Time ended;
  [[nodiscard]] std::chrono::nanoseconds span() const noexcept { return ended - began; }
};

class EventState;  // private: a backend's

/// The end of one operation of a queue, and of all before it there. A plain value; every member may
/// be called from any thread.
class GANTRY_API DeviceEvent {
 public:
  DeviceEvent() noexcept = default;
  explicit DeviceEvent(std::shared_ptr<EventState> state) noexcept : state_(std::move(state)) {}

  /// Of an empty handle: done.
  [[nodiscard]] Outcome outcome() const noexcept;
  /// Waits for the end. Errors: `timed_out` (it goes on and may be waited for again); how the
  /// operation failed: see DeviceQueue.
  [[nodiscard]] Result<void> wait(Deadline deadline = Deadline::never()) const;
  /// Errors: `busy` before the end, the operation's error when it failed, `invalid_argument` for an
  /// empty handle.
  [[nodiscard]] Result<DeviceTiming> timing() const;
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<EventState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

// ---- queues --------------------------------------------------------------------------------

/// What a queue is for. Any queue takes any operation; the device serves the named one best.
enum class QueueRole : std::uint8_t { copy_in, compute, copy_out };
[[nodiscard]] GANTRY_API std::string_view to_string(QueueRole role) noexcept;

/// Keeps host memory for as long as an operation can touch it, also after abandon().
using KeepAlive = std::shared_ptr<const void>;

/// Operations that run one after another, in the order of submission; those of different queues
/// do not wait for each other but by wait_for(). Submitting returns at once. Every member may be
/// called from any thread.
///
/// Host memory stays valid, and what is read of it unchanged, until the operation's event ends; the
/// queue holds the buffers, kernels and KeepAlives that its operations use until then.
///
/// Errors of submission, by which nothing is queued: `invalid_argument` (a range outside its
/// buffer, with the numbers; an empty handle; a buffer, kernel or event of another device; too
/// large a group; a value of the wrong size where the device can tell), `device_lost`,
/// `out_of_memory` (of the host).
///
/// Errors of an event: `kernel_fault`, `device_lost`, `device_full`, `interrupted` (cancelled
/// before its end), `system` and what a copy says (`invalid_argument` with the address that cannot
/// be read or written, where the device can tell). What comes after a failed operation in its queue
/// does not begin, and fails with its code; so does what waits for it in other queues, and what
/// follows there. drain() ends that.
///
/// Destruction waits, as drain() without a deadline, unless the device is lost or abandoned.
class GANTRY_API DeviceQueue {
 public:
  DeviceQueue() = default;
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;
  virtual ~DeviceQueue() = default;

  [[nodiscard]] virtual QueueRole role() const noexcept = 0;

  /// Host to device, `to` from byte `offset` on.
  [[nodiscard]] virtual Result<DeviceEvent> copy_in(const DeviceBuffer& to, Bytes offset,
                                                    ConstByteSpan from, KeepAlive keep = {}) = 0;
  /// Device to host.
  [[nodiscard]] virtual Result<DeviceEvent> copy_out(const DeviceBuffer& from, Bytes offset,
                                                     ByteSpan to, KeepAlive keep = {}) = 0;
  /// Within the device; the ranges do not overlap.
  [[nodiscard]] virtual Result<DeviceEvent> copy(const DeviceBuffer& to, Bytes to_offset,
                                                 const DeviceBuffer& from, Bytes from_offset,
                                                 Bytes size) = 0;
  [[nodiscard]] virtual Result<DeviceEvent> fill(const DeviceBuffer& to, Bytes offset, Bytes size,
                                                 std::byte value) = 0;
  [[nodiscard]] virtual Result<DeviceEvent> launch(const Kernel& kernel,
                                                   std::span<const KernelArgument> arguments,
                                                   const LaunchRange& range) = 0;
  [[nodiscard]] Result<DeviceEvent> launch(const Kernel& kernel,
                                           std::initializer_list<KernelArgument> arguments,
                                           const LaunchRange& range) {
    return launch(kernel, std::span(arguments.begin(), arguments.size()), range);
  }

  /// An event that ends with everything submitted here so far.
  [[nodiscard]] virtual Result<DeviceEvent> record() = 0;
  /// What is submitted here from now on begins after `event`, of a queue of the same device, or
  /// fails with it. An empty event: nothing to wait for.
  [[nodiscard]] virtual Result<void> wait_for(const DeviceEvent& event) = 0;

  /// Waits until nothing is pending here; answers the first error since the last drain(), after
  /// which the queue is as new. Errors: `timed_out`: all goes on as before; what operations say.
  [[nodiscard]] virtual Result<void> drain(Deadline deadline = Deadline::never()) = 0;
  /// What has not begun never will, and ends as `interrupted`; what runs is told to stop where the
  /// device can (DeviceFacts::stops_kernels), else ends by itself. Returns at once.
  virtual void cancel() noexcept = 0;
};

// ---- devices -------------------------------------------------------------------------------

/// Every member may be called from any thread. Held by shared_ptr: queues, buffers and programs
/// keep what they need of their device.
class GANTRY_API Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceFacts& facts() const noexcept = 0;
  /// Errors: `device_lost`.
  [[nodiscard]] virtual Result<DeviceMemory> memory() const = 0;

  /// Errors: `device_full`; `too_large` (beyond max_buffer_bytes); `invalid_argument` for 0 bytes;
  /// `device_lost`.
  [[nodiscard]] virtual Result<DeviceBuffer> allocate(Bytes size) = 0;
  /// A buffer that is the caller's memory: what is there is its contents, and operations work on it
  /// where it lies. What they wrote is the host's when a copy_out() of it to the same place has
  /// ended, and what the host wrote later the device's after such a copy_in(); neither moves
  /// anything. The memory takes nothing of the device's, and stays valid until the buffer and its
  /// operations are gone, or as long as `keep`. Buffers of which one is written do not overlap.
  /// Errors: `unsupported` where DeviceFacts::in_place_alignment is 0; `invalid_argument` (no
  /// memory, or it begins elsewhere than at a multiple of that); `too_large`; `device_lost`.
  [[nodiscard]] virtual Result<DeviceBuffer> over(ByteSpan memory, KeepAlive keep = {});
  /// As many as wanted, three at least. Errors: `device_lost`, `out_of_memory`, `system`.
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceQueue>> open_queue(QueueRole role) = 0;
  /// Compiles, if there is something to compile; the calling thread waits. Errors: `unsupported`
  /// (the source has nothing in this device's languages, or no compiler is there),
  /// `build_failed` (the message is the compiler's log, with lines), `device_lost`.
  [[nodiscard]] virtual Result<Program> build(const ProgramSource& source) = 0;
  /// What makes host memory page-locked so that this device copies it quickest; for pools and for
  /// memory in place. Errors: `unsupported`.
  [[nodiscard]] virtual Result<std::shared_ptr<Registrar>> registrar() = 0;

  /// Nothing, or `device_lost` with what became of it.
  [[nodiscard]] virtual Result<void> state() const = 0;
  /// Gives the device up, for a kernel that never ends: everything pending ends now as
  /// `device_lost`, nothing new begins, and neither queues nor buffers are waited for when they are
  /// dropped. What the device may still be using (a running kernel's buffers, KeepAlives) is freed
  /// when it has ended, if ever: host memory that was handed over without a KeepAlive must stay.
  virtual void abandon(std::string reason) noexcept = 0;

  /// What reads and writes the files of jobs that run here; null: pread() and pwrite() do.
  [[nodiscard]] const std::shared_ptr<FileIo>& file_io() const noexcept { return file_io_; }
  /// For whoever opens the device, before others have it.
  void set_file_io(std::shared_ptr<FileIo> file_io) noexcept { file_io_ = std::move(file_io); }

 private:
  std::shared_ptr<FileIo> file_io_;
};

}  // namespace gantry
