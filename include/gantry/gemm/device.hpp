#pragma once  // gantry/gemm/device.hpp: products of matrices in a device's memory.

#include <gantry/device/device.hpp>
#include <gantry/gemm.hpp>
#include <memory>

namespace gantry {

/// A row-major matrix within a buffer. `offset` counts bytes, a multiple of an element's; `stride`
/// counts elements from the beginning of a row to that of the next.
struct DeviceMatrix {
  const DeviceBuffer* buffer = nullptr;  ///< Of the device that multiplies.
  Bytes offset = 0;
  std::int64_t stride = 0;
};

/// `c` = `a` * `b`, or `c` += `a` * `b` if `adds`, in buffers of one device; `type`, `m`, `n` and
/// `k` as in Gemm. Buffers and strides of empty matrices are ignored.
struct DeviceGemm {
  DataType type;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DeviceMatrix a;
  DeviceMatrix b;
  DeviceMatrix c;
  bool adds = false;
};

/// Computes products on the queues of one device. Any thread may call.
class GANTRY_API DeviceGemmLibrary {
 public:
  DeviceGemmLibrary() = default;
  DeviceGemmLibrary(const DeviceGemmLibrary&) = delete;
  DeviceGemmLibrary& operator=(const DeviceGemmLibrary&) = delete;
  virtual ~DeviceGemmLibrary();

  /// `library`: "cublas", or "gantry" for kernels of ours; of a `cpu` device that of its CPU.
  [[nodiscard]] virtual const GemmFacts& facts() const noexcept = 0;
  /// True if it multiplies elements of this type.
  [[nodiscard]] virtual bool takes(const DataType& type) const noexcept = 0;
  /// Queues the product and returns at once, as DeviceQueue::launch(). f16 and bf16 are summed as
  /// f32 and rounded once; integers wrap around. The first product of a queue, and of a type, is
  /// slow. Errors: `invalid_argument` (a matrix outside its buffer, a stride shorter than a row, a
  /// negative size; an empty handle; a queue of another device), `unsupported` (a type that it does
  /// not take, a side beyond what its library counts; of a `cpu` device the event tells that),
  /// those of a launch.
  [[nodiscard]] virtual Result<DeviceEvent> multiply(DeviceQueue& queue,
                                                     const DeviceGemm& product) = 0;
};

/// Opens the device's own library of products where it has one (cuBLAS), else kernels of ours,
/// which are compiled by the device. A `cpu` device uses the library that open_gemm() chooses, on
/// its threads. Errors: `unsupported` (no compiler, with what to install), those of
/// Device::build().
[[nodiscard]] GANTRY_API Result<std::shared_ptr<DeviceGemmLibrary>> open_gemm(
    const std::shared_ptr<Device>& device);

/// A library for products in host memory that computes on a device: copies to it, multiplies, and
/// copies back, and returns when that is done. One product at a time; others wait. Errors: those of
/// opening a queue.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<GemmLibrary>> make_host_gemm(
    const std::shared_ptr<Device>& device, const std::shared_ptr<DeviceGemmLibrary>& library);

}  // namespace gantry
