#pragma once  // gantry/device/device.hpp: devices that compute beside the CPU: memory, queues,
              // events, kernels.

#include <chrono>
#include <gantry/device/kernel.hpp>
#include <gantry/engine.hpp>
#include <gantry/engine/file_io.hpp>
#include <gantry/memory/registrar.hpp>
#include <initializer_list>

namespace gantry {

/// What drives the device.
enum class DeviceKind : std::uint8_t {
  cpu,     ///< Threads of this process; kernels are C++ functions.
  opencl,  ///< An OpenCL driver.
  cuda     ///< The CUDA driver.
};
[[nodiscard]] GANTRY_API std::string_view to_string(DeviceKind kind) noexcept;

/// Facts of a device that never change.
struct GANTRY_API DeviceFacts {
  std::string name;                   ///< The name for open_device(): "cpu", "opencl:0", "cuda:1".
  std::string about;                  ///< Model, vendor and driver, to display.
  DeviceKind kind = DeviceKind::cpu;  ///< It says which part of a ProgramSource counts.
  Bytes memory_bytes = 0;             ///< The most that buffers may take together.
  Bytes max_buffer_bytes = 0;         ///< Largest size of one buffer.
  Bytes alignment = 1;                ///< Quickest alignment of host memory and offsets.
  std::size_t max_group = 1;          ///< Most work items of a group.
  Bytes local_bytes = 0;              ///< Most local memory of a group.
  unsigned compute_units = 1;         ///< CPUs, multiprocessors.
  /// Partial results that a launch may leave in each buffer of KernelArgument::partials(): `cpu`
  /// has one for each thread.
  unsigned partials = 1;
  bool unified_memory = false;  ///< Its memory is the host's: a copy crosses no bus.
  bool host_visible = false;    ///< DeviceBuffer::host() gives access to buffers.
  /// Alignment that over() requires, a power of two; 0 if unsupported.
  Bytes in_place_alignment = 0;
  bool copies_overlap = false;  ///< Copies and kernels of different queues run at the same time.
  /// Copies from and to memory that registrar() registered are quicker, or are the only
  /// asynchronous ones.
  bool registering_pays = false;
  bool stops_kernels = false;  ///< cancel() and abandon() end a running kernel that checks for it.
};

/// How much memory a device has.
struct DeviceMemory {
  Bytes total_bytes = 0;  ///< DeviceFacts::memory_bytes.
  Bytes free_bytes = 0;   ///< If the device does not tell: total less what is allocated here.
};

// ---- buffers -------------------------------------------------------------------------------

/// Memory of a device, with undefined contents at first. Move-only. After it is dropped, it is
/// freed when the last operation that uses it has ended. Keeps its device alive.
class GANTRY_API DeviceBuffer {
 public:
  DeviceBuffer() noexcept = default;
  explicit DeviceBuffer(std::shared_ptr<BufferState> state) noexcept;
  DeviceBuffer(DeviceBuffer&&) noexcept = default;
  DeviceBuffer& operator=(DeviceBuffer&&) noexcept = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() = default;

  /// Bytes; 0 of an empty one.
  [[nodiscard]] Bytes size() const noexcept;
  /// Its memory if DeviceFacts::host_visible, else empty. Do not use it while operations do.
  [[nodiscard]] ByteSpan host() const noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  /// For the device's own code.
  [[nodiscard]] const std::shared_ptr<BufferState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<BufferState> state_;
};

// ---- events --------------------------------------------------------------------------------

/// When an operation ran, on the clock of Deadline, whatever clock the device has.
struct DeviceTiming {
  /// The clock of the host's deadlines.
  using Time = Deadline::Clock::time_point;
  Time submitted;  ///< When it was given to the queue.
  Time began;      ///< When the device took it up.
  Time ended;      ///< When the device was done with it.
  /// How long it ran.
  [[nodiscard]] std::chrono::nanoseconds span() const noexcept { return ended - began; }
};

class EventState;  // private: a backend's

/// The end of one operation of a queue, and of all before it there. A plain value. Any thread may
/// call every member.
class GANTRY_API DeviceEvent {
 public:
  DeviceEvent() noexcept = default;
  explicit DeviceEvent(std::shared_ptr<EventState> state) noexcept : state_(std::move(state)) {}

  /// An empty handle is done.
  [[nodiscard]] Outcome outcome() const noexcept;
  /// Waits for the end. Errors: `timed_out` (the operation goes on and may be waited for again);
  /// the operation's error, see DeviceQueue.
  [[nodiscard]] Result<void> wait(Deadline deadline = Deadline::never()) const;
  /// Errors: `busy` before the end, the operation's error when it failed, `invalid_argument` for an
  /// empty handle.
  [[nodiscard]] Result<DeviceTiming> timing() const;
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  /// For the device's own code.
  [[nodiscard]] const std::shared_ptr<EventState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

// ---- queues --------------------------------------------------------------------------------

/// What a queue is for. Any queue takes any operation; the device serves the named kind best.
enum class QueueRole : std::uint8_t {
  copy_in,  ///< Copies from the host to the device.
  compute,  ///< Launches.
  copy_out  ///< Copies from the device to the host.
};
[[nodiscard]] GANTRY_API std::string_view to_string(QueueRole role) noexcept;

/// Rows of equal length on both sides of a copy, such as those of a rectangle within a matrix. A
/// stride is the distance from the beginning of a row to that of the next; with more than one row
/// it is at least as long as a row. What lies between rows is not touched.
struct CopyRows {
  Bytes rows = 0;         ///< How many there are.
  Bytes row_bytes = 0;    ///< Length of each.
  Bytes to_stride = 0;    ///< On the side that is written.
  Bytes from_stride = 0;  ///< On the side that is read.
  /// True if nothing is to be copied.
  [[nodiscard]] bool is_empty() const noexcept { return rows == 0 || row_bytes == 0; }
};

/// Keeps host memory alive for as long as an operation can touch it, also after abandon().
using KeepAlive = std::shared_ptr<const void>;

/// Runs operations one after another, in the order of submission. Operations of different queues
/// wait for each other only by wait_for(). Submitting returns at once. Any thread may call every
/// member.
///
/// Host memory must stay valid, and must not change while it is read, until the operation's event
/// ends; until then the queue holds the buffers, kernels and KeepAlives that its operations use.
///
/// Errors of submission, after which nothing is queued: `invalid_argument` (a range outside its
/// buffer, with the numbers; an empty handle; a buffer, kernel or event of another device; too
/// large a group; a value of the wrong size where the device can tell), `device_lost`,
/// `out_of_memory` (of the host).
///
/// Errors of an event: `kernel_fault`, `device_lost`, `device_full`, `interrupted` (cancelled
/// before its end), `system` and the errors of a copy (`invalid_argument` with the address that
/// cannot be read or written, where the device can tell). Operations behind a failed one in its
/// queue do not begin and fail with its code; so do operations of other queues that wait for it,
/// and those behind them. drain() ends that.
///
/// The destructor waits, as drain() without a deadline, unless the device is lost or abandoned.
class GANTRY_API DeviceQueue {
 public:
  DeviceQueue() = default;
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;
  virtual ~DeviceQueue() = default;

  /// What the queue is meant for.
  [[nodiscard]] virtual QueueRole role() const noexcept = 0;

  /// Copies from the host to `to`, from byte `offset` on.
  [[nodiscard]] virtual Result<DeviceEvent> copy_in(const DeviceBuffer& to, Bytes offset,
                                                    ConstByteSpan from, KeepAlive keep = {}) = 0;
  /// Copies from the device to the host.
  [[nodiscard]] virtual Result<DeviceEvent> copy_out(const DeviceBuffer& from, Bytes offset,
                                                     ByteSpan to, KeepAlive keep = {}) = 0;
  /// Copies within the device; the ranges must not overlap.
  [[nodiscard]] virtual Result<DeviceEvent> copy(const DeviceBuffer& to, Bytes to_offset,
                                                 const DeviceBuffer& from, Bytes from_offset,
                                                 Bytes size) = 0;

  /// Copies rows from the host, where the first one begins at the beginning of `from`, to `to`,
  /// from byte `offset` on. A queue that has nothing better copies row by row; then rows before one
  /// that is refused may be queued.
  [[nodiscard]] virtual Result<DeviceEvent> copy_in_rows(const DeviceBuffer& to, Bytes offset,
                                                         ConstByteSpan from, const CopyRows& rows,
                                                         KeepAlive keep = {});
  /// Copies rows from the device to the host.
  [[nodiscard]] virtual Result<DeviceEvent> copy_out_rows(const DeviceBuffer& from, Bytes offset,
                                                          ByteSpan to, const CopyRows& rows,
                                                          KeepAlive keep = {});
  /// Copies rows within the device. Within one buffer both strides are the same, and no row
  /// overlaps another.
  [[nodiscard]] virtual Result<DeviceEvent> copy_rows(const DeviceBuffer& to, Bytes to_offset,
                                                      const DeviceBuffer& from, Bytes from_offset,
                                                      const CopyRows& rows);

  /// Sets each of the bytes to `value`.
  [[nodiscard]] virtual Result<DeviceEvent> fill(const DeviceBuffer& to, Bytes offset, Bytes size,
                                                 std::byte value) = 0;
  /// Runs the kernel over the range.
  [[nodiscard]] virtual Result<DeviceEvent> launch(const Kernel& kernel,
                                                   std::span<const KernelArgument> arguments,
                                                   const LaunchRange& range) = 0;
  [[nodiscard]] Result<DeviceEvent> launch(const Kernel& kernel,
                                           std::initializer_list<KernelArgument> arguments,
                                           const LaunchRange& range) {
    return launch(kernel, std::span(arguments.begin(), arguments.size()), range);
  }

  /// Returns an event that ends with everything submitted here so far.
  [[nodiscard]] virtual Result<DeviceEvent> record() = 0;
  /// Later operations of this queue begin after `event`, of a queue of the same device, or fail
  /// with it. An empty event has no effect.
  [[nodiscard]] virtual Result<void> wait_for(const DeviceEvent& event) = 0;

  /// Waits until nothing is pending here and returns the first error since the last drain(); then
  /// the queue is as new. Errors: `timed_out`, after which all goes on as before; those of
  /// operations.
  [[nodiscard]] virtual Result<void> drain(Deadline deadline = Deadline::never()) = 0;
  /// Ends operations that have not begun as `interrupted`. A running operation is told to stop
  /// where the device can (DeviceFacts::stops_kernels), else it ends by itself. Returns at once.
  virtual void cancel() noexcept = 0;
};

// ---- devices -------------------------------------------------------------------------------

/// Any thread may call every member. Held by shared_ptr: queues, buffers and programs keep what
/// they need of their device.
class GANTRY_API Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// What the device is and has; the same as long as it is open.
  [[nodiscard]] virtual const DeviceFacts& facts() const noexcept = 0;
  /// Errors: `device_lost`.
  [[nodiscard]] virtual Result<DeviceMemory> memory() const = 0;

  /// Errors: `device_full`; `too_large` (beyond max_buffer_bytes); `invalid_argument` for 0 bytes;
  /// `device_lost`.
  [[nodiscard]] virtual Result<DeviceBuffer> allocate(Bytes size) = 0;
  /// Makes a buffer of the caller's own memory; operations work on it where it lies, and it takes
  /// none of the device's memory. What they wrote is visible to the host after a copy_out() to the
  /// same place, and what the host wrote later to the device after such a copy_in(); neither moves
  /// anything. The memory must stay valid until the buffer and its operations are gone, or is held
  /// by `keep`. Buffers must not overlap if one of them is written. Errors: `unsupported` where
  /// DeviceFacts::in_place_alignment is 0; `invalid_argument` (no memory, or not aligned to that);
  /// `too_large`; `device_lost`.
  [[nodiscard]] virtual Result<DeviceBuffer> over(ByteSpan memory, KeepAlive keep = {});
  /// Opens a queue; at least three may be open. Errors: `device_lost`, `out_of_memory`, `system`.
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceQueue>> open_queue(QueueRole role) = 0;
  /// Compiles the source if needed; the calling thread waits. Errors: `unsupported` (the source has
  /// nothing in this device's languages, or there is no compiler), `build_failed` (the message is
  /// the compiler's log, with lines), `device_lost`.
  [[nodiscard]] virtual Result<Program> build(const ProgramSource& source) = 0;
  /// The device's own library of matrix products, as a program with a kernel for each type that it
  /// takes ("f32"); its log is the library's name and version. Internal: gantry/gemm/device.hpp is
  /// the way to products. Errors: `unsupported`, with what to install.
  [[nodiscard]] virtual Result<Program> gemm_program();
  /// Page-locks host memory so that this device copies it quickest; for pools and for memory in
  /// place. Errors: `unsupported`.
  [[nodiscard]] virtual Result<std::shared_ptr<Registrar>> registrar() = 0;

  /// Success, or `device_lost` with the reason.
  [[nodiscard]] virtual Result<void> state() const = 0;
  /// Gives the device up, for a kernel that never ends. Everything pending ends now as
  /// `device_lost`, nothing new begins, and dropping queues and buffers waits for nothing. What the
  /// device may still be using (a running kernel's buffers, KeepAlives) is freed when the kernel
  /// has ended, if ever. Host memory that was handed over without a KeepAlive must stay.
  virtual void abandon(std::string reason) noexcept = 0;

  /// Reads and writes the files of jobs that run here. Null: pread() and pwrite() do.
  [[nodiscard]] const std::shared_ptr<FileIo>& file_io() const noexcept { return file_io_; }
  /// To be called by the opener of the device, before others have it.
  void set_file_io(std::shared_ptr<FileIo> file_io) noexcept { file_io_ = std::move(file_io); }

 private:
  std::shared_ptr<FileIo> file_io_;
};

}  // namespace gantry
