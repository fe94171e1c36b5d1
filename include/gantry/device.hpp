#pragma once  // gantry/device.hpp: devices that compute beside the CPU: memory, queues, events.

#include <chrono>
#include <gantry/engine.hpp>
#include <gantry/file.hpp>
#include <gantry/kernel.hpp>
#include <gantry/memory.hpp>
#include <initializer_list>

namespace gantry {

/// The driver of a device.
enum class DeviceKind : std::uint8_t {
  cpu,     ///< Threads of this process; kernels are C++ functions.
  opencl,  ///< An OpenCL driver.
  cuda     ///< The CUDA driver.
};
[[nodiscard]] GANTRY_API std::string_view to_string(DeviceKind kind) noexcept;

/// Constant facts of a device.
struct GANTRY_API DeviceFacts {
  std::string name;                   ///< The name for open_device(): "cpu", "opencl:0", "cuda:1".
  std::string about;                  ///< Model, vendor and driver, for display.
  DeviceKind kind = DeviceKind::cpu;  ///< Determines which part of a ProgramSource is used.
  Bytes memory_bytes = 0;             ///< Upper limit of all buffers together.
  Bytes max_buffer_bytes = 0;         ///< Largest size of one buffer.
  Bytes alignment = 1;                ///< Fastest alignment of host memory and offsets.
  std::size_t max_group = 1;          ///< Largest number of work items in a group.
  Bytes local_bytes = 0;              ///< Largest local memory of a group.
  unsigned compute_units = 1;         ///< Number of CPUs or multiprocessors.
  /// Number of partial results that a launch may leave in each buffer of
  /// KernelArgument::partials(); on `cpu`, one for each thread.
  unsigned partials = 1;
  bool unified_memory = false;  ///< The device uses the host's memory: copies do not cross a bus.
  bool host_visible = false;    ///< DeviceBuffer::host() gives access to buffers.
  /// Alignment that over() requires, a power of two; 0: over() is not supported.
  Bytes in_place_alignment = 0;
  /// Copies and kernels of different queues can run at the same time.
  bool copies_overlap = false;
  /// Copies from and to memory registered by registrar() are faster, or are the only asynchronous
  /// copies.
  bool registering_pays = false;
  /// cancel() and abandon() end a running kernel that checks for them.
  bool stops_kernels = false;
};

/// Memory of a device, in total and free.
struct DeviceMemory {
  Bytes total_bytes = 0;  ///< DeviceFacts::memory_bytes.
  /// If the device does not report it: the total less the allocations of this process.
  Bytes free_bytes = 0;
};

// ---- buffers -------------------------------------------------------------------------------

/// Memory of a device, initially undefined. Move-only. After it is dropped, the memory is freed
/// when the last operation that uses it has ended. Keeps its device alive.
class GANTRY_API DeviceBuffer {
 public:
  DeviceBuffer() noexcept = default;
  explicit DeviceBuffer(std::shared_ptr<BufferState> state) noexcept;
  DeviceBuffer(DeviceBuffer&&) noexcept = default;
  DeviceBuffer& operator=(DeviceBuffer&&) noexcept = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() = default;

  /// Size in bytes; 0 for an empty handle.
  [[nodiscard]] Bytes size() const noexcept;
  /// The buffer's memory if DeviceFacts::host_visible, otherwise empty. Do not use it while
  /// operations do.
  [[nodiscard]] ByteSpan host() const noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  /// For the device's own code.
  [[nodiscard]] const std::shared_ptr<BufferState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<BufferState> state_;
};

// ---- events --------------------------------------------------------------------------------

/// Times of an operation on the clock of Deadline, whatever the device's clock.
struct DeviceTiming {
  /// The clock of the host's deadlines.
  using Time = Deadline::Clock::time_point;
  Time submitted;  ///< Submitted to the queue.
  Time began;      ///< Started on the device.
  Time ended;      ///< Ended on the device.
  /// Running time.
  [[nodiscard]] std::chrono::nanoseconds span() const noexcept { return ended - began; }
};

class EventState;  // private: a backend's

/// The end of one operation of a queue, and of all operations before it there. A plain value. Any
/// thread may call every member.
class GANTRY_API DeviceEvent {
 public:
  DeviceEvent() noexcept = default;
  explicit DeviceEvent(std::shared_ptr<EventState> state) noexcept : state_(std::move(state)) {}

  /// Progress of the operation; `done` for an empty handle.
  [[nodiscard]] Outcome outcome() const noexcept;
  /// Waits for the end. Errors: `timed_out` (the operation continues and may be awaited again); the
  /// operation's error, see DeviceQueue.
  [[nodiscard]] Result<void> wait(Deadline deadline = Deadline::never()) const;
  /// Times of the operation. Errors: `busy` before the end, the operation's error when it failed,
  /// `invalid_argument` for an empty handle.
  [[nodiscard]] Result<DeviceTiming> timing() const;
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  /// For the device's own code.
  [[nodiscard]] const std::shared_ptr<EventState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

// ---- queues --------------------------------------------------------------------------------

/// Purpose of a queue. Any queue takes any operation; the device serves the named kind best.
enum class QueueRole : std::uint8_t {
  copy_in,  ///< Copies from the host to the device.
  compute,  ///< Launches.
  copy_out  ///< Copies from the device to the host.
};
[[nodiscard]] GANTRY_API std::string_view to_string(QueueRole role) noexcept;

/// Rows of equal length on both sides of a copy, for example of a rectangle within a matrix. A
/// stride is the distance between the starts of adjacent rows; if there are several rows, it must
/// be at least the length of a row. Bytes between rows are not touched.
struct CopyRows {
  Bytes rows = 0;         ///< Number of rows.
  Bytes row_bytes = 0;    ///< Length of each row.
  Bytes to_stride = 0;    ///< Stride on the side that is written.
  Bytes from_stride = 0;  ///< Stride on the side that is read.
  /// True if there are no bytes to copy.
  [[nodiscard]] bool is_empty() const noexcept { return rows == 0 || row_bytes == 0; }
};

/// Keeps host memory alive for as long as an operation can touch it, even after abandon().
using KeepAlive = std::shared_ptr<const void>;

/// Runs operations one after another, in the order of submission. Operations of different queues
/// wait for each other only by wait_for(). Submitting returns at once. Any thread may call every
/// member.
///
/// Host memory must stay valid, and must not change while it is read, until the operation's event
/// ends; until then the queue holds the buffers, kernels and KeepAlives that its operations use.
///
/// Errors of submission; the operation is then not queued: `invalid_argument` (a range outside its
/// buffer, with the numbers; an empty handle; a buffer, kernel or event of another device; too
/// large a group; a value of the wrong size, if the device can tell), `device_lost`,
/// `out_of_memory` (of the host).
///
/// Errors of an event: `kernel_fault`, `device_lost`, `device_full`, `interrupted` (cancelled
/// before its end), `system` and the errors of a copy (`invalid_argument` with the address that
/// cannot be read or written, if the device can tell). Operations behind a failed one in its queue
/// do not begin and fail with its code; so do operations of other queues that wait for the failed
/// one, and those behind them. drain() resets this state.
///
/// The destructor waits, as drain() without a deadline, unless the device is lost or abandoned.
class GANTRY_API DeviceQueue {
 public:
  DeviceQueue() = default;
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;
  virtual ~DeviceQueue() = default;

  /// Purpose of the queue.
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

  /// Copies rows from the host to `to`. The first row begins at the start of `from`, and at byte
  /// `offset` of `to`. A queue without a better method copies row by row; if it refuses a row,
  /// earlier rows may be queued.
  [[nodiscard]] virtual Result<DeviceEvent> copy_in_rows(const DeviceBuffer& to, Bytes offset,
                                                         ConstByteSpan from, const CopyRows& rows,
                                                         KeepAlive keep = {});
  /// Copies rows from the device to the host.
  [[nodiscard]] virtual Result<DeviceEvent> copy_out_rows(const DeviceBuffer& from, Bytes offset,
                                                          ByteSpan to, const CopyRows& rows,
                                                          KeepAlive keep = {});
  /// Copies rows within the device. Within one buffer both strides must be equal, and rows must not
  /// overlap.
  [[nodiscard]] virtual Result<DeviceEvent> copy_rows(const DeviceBuffer& to, Bytes to_offset,
                                                      const DeviceBuffer& from, Bytes from_offset,
                                                      const CopyRows& rows);

  /// Sets `size` bytes from byte `offset` on to `value`.
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

  /// Returns an event that ends when everything submitted here so far has ended.
  [[nodiscard]] virtual Result<DeviceEvent> record() = 0;
  /// Later operations of this queue begin after `event` (any queue of the same device), or fail
  /// with the error of `event`. An empty event has no effect.
  [[nodiscard]] virtual Result<void> wait_for(const DeviceEvent& event) = 0;

  /// Waits until nothing is pending here and returns the first error since the last drain(); the
  /// queue may then be used again. Errors: `timed_out`, which changes nothing; those of operations.
  [[nodiscard]] virtual Result<void> drain(Deadline deadline = Deadline::never()) = 0;
  /// Ends operations that have not begun as `interrupted`. A running operation is told to stop if
  /// the device can do so (DeviceFacts::stops_kernels); otherwise it ends by itself. Returns at
  /// once.
  virtual void cancel() noexcept = 0;
};

// ---- devices -------------------------------------------------------------------------------

/// A device. Any thread may call every member. Held by shared_ptr: queues, buffers and programs
/// keep the parts of their device that they need.
class GANTRY_API Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// Facts of the device; constant while it is open.
  [[nodiscard]] virtual const DeviceFacts& facts() const noexcept = 0;
  /// Memory of the device now. Errors: `device_lost`.
  [[nodiscard]] virtual Result<DeviceMemory> memory() const = 0;

  /// Allocates a buffer. Errors: `device_full`; `too_large` (beyond max_buffer_bytes);
  /// `invalid_argument` for 0 bytes; `device_lost`.
  [[nodiscard]] virtual Result<DeviceBuffer> allocate(Bytes size) = 0;
  /// Makes a buffer over the caller's memory; operations work on this memory directly, and it does
  /// not use the device's memory. A copy_out() to the same place makes results visible to the host;
  /// a copy_in() from it makes later writes of the host visible to the device; neither moves bytes.
  /// The memory must stay valid until the buffer and its operations are gone, unless `keep` holds
  /// it. Buffers must not overlap if one of them is written. Errors: `unsupported` if
  /// DeviceFacts::in_place_alignment is 0; `invalid_argument` (empty memory, or not aligned to that
  /// value); `too_large`; `device_lost`.
  [[nodiscard]] virtual Result<DeviceBuffer> over(ByteSpan memory, KeepAlive keep = {});
  /// Opens a queue; at least three may be open. Errors: `device_lost`, `out_of_memory`, `system`.
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceQueue>> open_queue(QueueRole role) = 0;
  /// Compiles the source if needed; the calling thread waits. Errors: `unsupported` (the source
  /// does not have a language of this device, or there is no compiler), `build_failed` (the message
  /// is the compiler's log, with lines), `device_lost`.
  [[nodiscard]] virtual Result<Program> build(const ProgramSource& source) = 0;
  /// The device's own library of matrix products, as a program with a kernel for each supported
  /// type ("f32"); its log is the library's name and version. Internal: use gantry/gemm.hpp for
  /// products. Errors: `unsupported`, with the software to install.
  [[nodiscard]] virtual Result<Program> gemm_program();
  /// The registrar that page-locks host memory so that this device copies it fastest; for pools and
  /// for memory in place. Errors: `unsupported`.
  [[nodiscard]] virtual Result<std::shared_ptr<Registrar>> registrar() = 0;

  /// Success, or `device_lost` with the reason.
  [[nodiscard]] virtual Result<void> state() const = 0;
  /// Gives the device up, for a kernel that never ends. All pending operations end now as
  /// `device_lost`, new ones do not begin, and dropping queues and buffers does not wait. Memory
  /// that the device may still use (a running kernel's buffers, KeepAlives) is freed when the
  /// kernel ends, if ever. Host memory that was passed without a KeepAlive must stay valid.
  virtual void abandon(std::string reason) noexcept = 0;

  /// Reads and writes the files of jobs on this device. Null: pread() and pwrite() are used.
  [[nodiscard]] const std::shared_ptr<FileIo>& file_io() const noexcept { return file_io_; }
  /// Called by the opener of the device, before others use it.
  void set_file_io(std::shared_ptr<FileIo> file_io) noexcept { file_io_ = std::move(file_io); }

 private:
  std::shared_ptr<FileIo> file_io_;
};

}  // namespace gantry
