#pragma once  // gantry/gemm.hpp: products of matrices in host memory and in device memory.

#include <gantry/channel.hpp>
#include <gantry/device.hpp>
#include <gantry/engine.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <string>
#include <vector>

namespace gantry {

/// c = a * b, or c += a * b if `adds`. Row-major in host memory; a is m x k, b is k x n, c is m x
/// n. A stride is the number of elements between the starts of adjacent rows. Elements of c's
/// memory between rows are not touched. c must not overlap a or b. Sizes may be 0: with k = 0 the
/// product is 0, with m or n = 0 nothing is done. Pointers of empty matrices may be null, and their
/// strides are ignored.
struct Gemm {
  DataType type;                 ///< Element type of all three matrices; see takes().
  std::int64_t m = 0;            ///< Rows of a and c.
  std::int64_t n = 0;            ///< Columns of b and c.
  std::int64_t k = 0;            ///< Columns of a, rows of b.
  const std::byte* a = nullptr;  ///< First element of a, aligned to an element's size.
  std::int64_t a_stride = 0;     ///< At least `k`.
  const std::byte* b = nullptr;  ///< First element of b, aligned to an element's size.
  std::int64_t b_stride = 0;     ///< At least `n`.
  std::byte* c = nullptr;        ///< First element of c, aligned to an element's size.
  std::int64_t c_stride = 0;     ///< At least `n`.
  bool adds = false;             ///< False: the former values of c are overwritten.
};

/// Identity of a library, and the reason for its choice.
struct GemmFacts {
  std::string library;   ///< "openblas", "onednn" or "builtin".
  std::string version;   ///< As the library reports it.
  std::string core;      ///< Kernels that the library chose for this CPU, as it reports them.
  unsigned threads = 1;  ///< Number of threads for one product.
  std::string why;       ///< Reason for the choice: a request, or measurements. One line.
};

/// Computes products. Any thread may call every member, several at a time.
class GANTRY_API GemmLibrary {
 public:
  GemmLibrary() = default;
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;
  virtual ~GemmLibrary();

  /// Identity of the library; constant while it is open.
  [[nodiscard]] virtual const GemmFacts& facts() const noexcept = 0;
  /// True if multiply() supports this element type.
  [[nodiscard]] virtual bool takes(const DataType& type) const noexcept = 0;
  /// Computes in the calling thread, and in the library's threads if facts().threads > 1. f16 and
  /// bf16 are summed as f32 and rounded once; integers wrap around. Errors: `invalid_argument` (a
  /// null or misaligned pointer, a stride shorter than a row, a negative or impossible size),
  /// `unsupported` (an unsupported type), `out_of_memory`, `system` (the library failed).
  [[nodiscard]] virtual Result<void> multiply(const Gemm& product) = 0;
};

/// Choice of a library and its number of threads.
struct GemmOptions {
  /// "openblas": f64, f32. "onednn": f32. "builtin": f64, f32, f16, bf16, i32, i64. Empty: for each
  /// type the fastest library that supports it, measured at the first use in the process and
  /// remembered.
  std::string library = {};
  /// Number of threads for one product, 1 to 1024; facts() has the number that the library uses.
  /// OpenBLAS has one number for the process, which also applies to a program's own calls of it.
  unsigned threads = 1;
};

/// Loads a library, which stays loaded; its first product is slow. Errors: `not_found` (no
/// such name), `unsupported` (not installed, with the software to install), `busy` (OpenBLAS is
/// open with another number of threads), `invalid_argument`.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<GemmLibrary>> open_gemm(
    const GemmOptions& options = {});

/// Lists the libraries by name: usable here, or the reason and remedy if not. Loads them, which
/// takes some hundredths of a second, but does not measure.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> list_gemm_libraries();

// ---- products of matrices in a device's memory --------------------------------------------------

/// A row-major matrix within a buffer. `offset` is in bytes, a multiple of the element size;
/// `stride` is the number of elements between the starts of adjacent rows.
struct DeviceMatrix {
  const DeviceBuffer* buffer = nullptr;  ///< A buffer of the device that multiplies.
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

/// Computes products on the queues of one device. Any thread may call every member.
class GANTRY_API DeviceGemmLibrary {
 public:
  DeviceGemmLibrary() = default;
  DeviceGemmLibrary(const DeviceGemmLibrary&) = delete;
  DeviceGemmLibrary& operator=(const DeviceGemmLibrary&) = delete;
  virtual ~DeviceGemmLibrary();

  /// Identity of the library. GemmFacts::library is "cublas", or "gantry" for Gantry's own kernels;
  /// for a `cpu` device it is the library of the CPU.
  [[nodiscard]] virtual const GemmFacts& facts() const noexcept = 0;
  /// True if multiply() supports this element type.
  [[nodiscard]] virtual bool takes(const DataType& type) const noexcept = 0;
  /// Queues the product and returns at once, as DeviceQueue::launch(). f16 and bf16 are summed as
  /// f32 and rounded once; integers wrap around. The first product of a queue, and of a type, is
  /// slow. Errors: `invalid_argument` (a matrix outside its buffer, a stride shorter than a row, a
  /// negative size; an empty handle; a queue of another device), `unsupported` (an unsupported
  /// type, a size beyond the library's integers; on a `cpu` device the event reports it), those of
  /// a launch.
  [[nodiscard]] virtual Result<DeviceEvent> multiply(DeviceQueue& queue,
                                                     const DeviceGemm& product) = 0;
};

/// Opens the device's own library of products if there is one (cuBLAS), otherwise Gantry's kernels,
/// which the device compiles. A `cpu` device uses the library that open_gemm() chooses, on the
/// device's threads. Errors: `unsupported` (no compiler, with the software to install), those of
/// Device::build().
[[nodiscard]] GANTRY_API Result<std::shared_ptr<DeviceGemmLibrary>> open_gemm(
    const std::shared_ptr<Device>& device);

/// Makes a library for products in host memory that computes on a device: it copies the factors to
/// the device, multiplies, copies the result back, and then returns. One product at a time; others
/// wait. Errors: those of opening a queue.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<GemmLibrary>> make_host_gemm(
    const std::shared_ptr<Device>& device, const std::shared_ptr<DeviceGemmLibrary>& library);

}  // namespace gantry
