#pragma once  // gantry/kernel.hpp: kernels of a device: sources, arguments, ranges.

#include <array>
#include <atomic>
#include <concepts>
#include <cstring>
#include <functional>
#include <gantry/types.hpp>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

namespace gantry {

class DeviceBuffer;
struct BufferState;   // private: a backend's
struct KernelState;   // private: a backend's
struct ProgramState;  // private: a backend's

// ---- ranges --------------------------------------------------------------------------------

/// Number of work items of a launch, in up to three dimensions, and number of items in a group.
/// Items are numbered with the first dimension fastest. If a group does not divide its dimension,
/// the device runs extra items, so kernels must compare their index with a count among their
/// arguments. A range in which a dimension has 0 items does not run the kernel.
struct GANTRY_API LaunchRange {
  std::array<std::size_t, 3> items{1, 1, 1};  ///< Work items along each dimension.
  std::array<std::size_t, 3> group{0, 0, 0};  ///< All 0: the device chooses.

  /// A range of one dimension; `group` 0: the device chooses.
  [[nodiscard]] static LaunchRange linear(std::size_t items, std::size_t group = 0) noexcept {
    const std::size_t other = group == 0 ? 0 : 1;
    return {{items, 1, 1}, {group, other, other}};
  }
  /// Number of items in all dimensions; saturates.
  [[nodiscard]] std::size_t count() const noexcept;
  /// Number of items of one group; 0: the device chooses.
  [[nodiscard]] std::size_t group_count() const noexcept;
};

// ---- kernels of the `cpu` device -----------------------------------------------------------

/// The part of a launch that one call of a CpuKernel computes: items [`first`, `last`).
/// It begins and ends at group borders if the launch has groups.
struct CpuSlice {
  std::size_t first = 0;
  std::size_t last = 0;
  LaunchRange range;                        ///< Range of the whole launch.
  const std::atomic<bool>* stop = nullptr;  ///< Read by should_stop(); null: never stop.

  /// True if the launch was cancelled or the device given up. Long loops should check it and
  /// return.
  [[nodiscard]] bool should_stop() const noexcept {
    return stop != nullptr && stop->load(std::memory_order_relaxed);  // a hint, not a barrier
  }
};

/// A launch's arguments as a CpuKernel sees them. A wrong request (no such argument, a value of
/// another size, a buffer that is not aligned for T) throws. The kernel must let the exception
/// pass: the launch then fails as `kernel_fault`.
class GANTRY_API CpuArguments {
 public:
  /// One argument: memory or a value.
  struct Item {
    ByteSpan memory;      ///< A buffer or local memory.
    ConstByteSpan value;  ///< Empty: the argument is memory.
  };
  /// For the device that launches; `items` must outlive this object.
  explicit CpuArguments(std::span<const Item> items) noexcept : items_(items) {}

  /// Number of arguments of the launch.
  [[nodiscard]] std::size_t count() const noexcept { return items_.size(); }
  /// A whole buffer, or local memory, which belongs to the calling thread and is initially
  /// undefined.
  [[nodiscard]] ByteSpan bytes(std::size_t index) const {
    if (index >= items_.size() || !items_[index].value.empty()) misused(index);
    return items_[index].memory;
  }
  /// A buffer, or local memory, as elements of type T.
  template <class T>
  [[nodiscard]] std::span<T> span(std::size_t index) const {
    const ByteSpan all = bytes(index);
    if (reinterpret_cast<std::uintptr_t>(all.data()) % alignof(T) != 0) misused(index);
    return {reinterpret_cast<T*>(all.data()), all.size() / sizeof(T)};
  }
  /// A copy of a value.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T value(std::size_t index) const {
    if (index >= items_.size() || items_[index].value.size() != sizeof(T)) misused(index);
    T answer;
    std::memcpy(&answer, items_[index].value.data(), sizeof(T));
    return answer;
  }

 private:
  [[noreturn]] void misused(std::size_t index) const;

  std::span<const Item> items_;
};

/// Several threads call the kernel at once, each with a different slice of one launch. The threads
/// share the launch's buffers, except that each has a separate partial result of a reduction. An
/// error or an exception ends the launch as `kernel_fault` with its message.
using CpuKernel = std::function<Result<void>(const CpuArguments& arguments, const CpuSlice& slice)>;

// ---- programs ------------------------------------------------------------------------------

/// A program in one language, and how to compile it.
struct KernelText {
  std::string source = {};  ///< Empty: not available in this language.
  std::string options =
      {};  ///< Compiler options, as on its command line: "-DN=4 -cl-fast-relaxed-math".
};

/// The same kernels in several languages; a device uses its own.
struct GANTRY_API ProgramSource {
  std::string name = "program";  ///< Name in messages.
  KernelText opencl = {};        ///< OpenCL C.
  KernelText cuda =
      {};  ///< CUDA C++, compiled at run time; its kernels are `extern "C" __global__`.
  std::vector<std::byte> cuda_image = {};     ///< A cubin, a fatbin or PTX; preferred to `cuda`.
  std::map<std::string, CpuKernel> cpu = {};  ///< By the name of the kernel.
};

/// One kernel of a program, on one device. A plain value that keeps its program alive.
class GANTRY_API Kernel {
 public:
  Kernel() noexcept = default;
  explicit Kernel(std::shared_ptr<const KernelState> state) noexcept : state_(std::move(state)) {}

  /// Name in the source.
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  /// For the device's own code.
  [[nodiscard]] const std::shared_ptr<const KernelState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<const KernelState> state_;
};

/// A program built for one device by Device::build(). A plain value.
class GANTRY_API Program {
 public:
  Program() noexcept = default;
  explicit Program(std::shared_ptr<const ProgramState> state) noexcept : state_(std::move(state)) {}

  /// Returns a kernel by name. Errors: `not_found`, with the names that exist; `invalid_argument`
  /// for an empty handle.
  [[nodiscard]] Result<Kernel> kernel(std::string_view name) const;
  /// Warnings of the compiler; often empty.
  [[nodiscard]] std::string_view log() const noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

 private:
  std::shared_ptr<const ProgramState> state_;
};

// ---- arguments -----------------------------------------------------------------------------

/// One argument of a launch: a whole buffer, a value, or local memory of each group.
class GANTRY_API KernelArgument {
 public:
  static constexpr Bytes kMostBytes = 64;  ///< Size of the largest value, in bytes.

  KernelArgument(const DeviceBuffer& buffer);  // implicit, so that launch(kernel, {a, b, n}) works
  template <class T>
    requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && sizeof(T) <= kMostBytes)
  KernelArgument(const T& value) noexcept : bytes_(sizeof(T)) {  // implicit, as above
    std::memcpy(value_.data(), &value, sizeof(T));
  }
  /// Local memory: `__local` in OpenCL C, dynamic shared memory in CUDA, scratch of each thread on
  /// `cpu`.
  [[nodiscard]] static KernelArgument local(Bytes bytes) noexcept {
    KernelArgument argument;
    argument.local_bytes_ = bytes;
    return argument;
  }
  /// A buffer of partial results of `bytes` bytes each, placed at multiples of partial_room(). On a
  /// device with several partial results (DeviceFacts::partials), each call of a CpuKernel sees one
  /// that no concurrent call uses; on others the kernel sees the buffer. A call finds the values
  /// that earlier calls left there.
  [[nodiscard]] static KernelArgument partials(const DeviceBuffer& buffer, Bytes bytes);
  /// Distance between partial results: each has separate cache lines.
  [[nodiscard]] static constexpr Bytes partial_room(Bytes bytes) noexcept {
    constexpr Bytes kLine = 64;
    return (bytes + kLine - 1) / kLine * kLine;
  }

  /// True for a buffer.
  [[nodiscard]] bool is_buffer() const noexcept { return is_buffer_; }
  /// The buffer, for the device's own code; null if the argument is not a buffer.
  [[nodiscard]] const std::shared_ptr<BufferState>& buffer() const noexcept { return buffer_; }
  /// The bytes of a value; empty if the argument is not a value.
  [[nodiscard]] ConstByteSpan value() const noexcept { return {value_.data(), bytes_}; }
  /// Size of local memory; 0 if the argument is not local memory.
  [[nodiscard]] Bytes local_bytes() const noexcept { return local_bytes_; }
  /// Size of a partial result; 0 if the argument does not have partial results.
  [[nodiscard]] Bytes partial_bytes() const noexcept { return partial_bytes_; }

 private:
  KernelArgument() noexcept = default;
  std::shared_ptr<BufferState> buffer_;
  std::array<std::byte, kMostBytes> value_{};
  Bytes bytes_ = 0;
  Bytes local_bytes_ = 0;
  Bytes partial_bytes_ = 0;
  bool is_buffer_ = false;
};

}  // namespace gantry
