#pragma once  // cuda/cublas.hpp: NVIDIA's library of products, where it is installed.

#include "device/cuda/context.hpp"

namespace gantry::cuda {

/// Names of the library, in the order in which they are tried; null ends the list.
inline constexpr const char* kProductLibraries[] = {"libcublas.so.13", "libcublas.so.12",
                                                    "libcublas.so.11", "libcublas.so", nullptr};

using CublasHandle = struct CublasObject*;
using CublasStatus = int;

// Declared by its ABI, so that no toolkit is needed. Its enumerations are ints.
// clang-format off
#define GANTRY_CUBLAS_FUNCTIONS(X) \
  X(create, "cublasCreate_v2", (CublasHandle* handle)) \
  X(destroy, "cublasDestroy_v2", (CublasHandle handle)) \
  X(version, "cublasGetVersion_v2", (CublasHandle handle, int* version)) \
  X(set_stream, "cublasSetStream_v2", (CublasHandle handle, StreamHandle stream)) \
  X(set_math_mode, "cublasSetMathMode", (CublasHandle handle, int mode)) \
  X(multiply, "cublasGemmEx", (CublasHandle handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha, const void* a, int a_type, int a_stride, const void* b, int b_type, int b_stride, const void* beta, void* c, int c_type, int c_stride, int sums, int algorithm))
// clang-format on

struct Cublas {
#define GANTRY_CUBLAS_MEMBER(member, symbol, parameters) CublasStatus(*member) parameters = nullptr;
  GANTRY_CUBLAS_FUNCTIONS(GANTRY_CUBLAS_MEMBER)
#undef GANTRY_CUBLAS_MEMBER
};

/// One of its types of elements, with the type of its sums, in its numbers.
struct CublasType {
  std::string_view name;
  int element;
  int sum;
  std::int64_t bytes;
};

struct ProductKernel final : KernelState {
  ProductKernel(DeviceToken owner, const Cublas& with, const CublasType& of)
      : KernelState(owner, std::string(of.name)), cublas(with), type(of) {}
  const Cublas cublas;
  const CublasType type;
};
/// Null: it is a kernel of a module.
[[nodiscard]] inline const ProductKernel* as_product(const KernelState& kernel) noexcept {
  return dynamic_cast<const ProductKernel*>(&kernel);
}

/// A program whose kernels are products, with the library's version as its log. It makes a handle
/// to ask for that. `library`: one file, or null for kProductLibraries. Errors: `unsupported`, with
/// what to install.
[[nodiscard]] Result<Program> product_program(const ContextPointer& context, const char* library);

/// Errors: `invalid_argument`, `unsupported` (a number beyond an int).
[[nodiscard]] Result<void> check_product(const Context& context, const Operation& operation);

/// The library's state for one stream, made when the first product comes.
class Products {
 public:
  explicit Products(ContextPointer context) noexcept : context_(std::move(context)) {}
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  /// Called in the queue's thread, with the context current, after check_product() succeeded.
  [[nodiscard]] Status multiply(const Operation& operation, StreamHandle stream) noexcept;

 private:
  struct Opened {
    Cublas cublas;
    CublasHandle handle = nullptr;
  };
  [[nodiscard]] Status open(const Cublas& cublas, StreamHandle stream) noexcept;

  const ContextPointer context_;
  std::unique_ptr<Opened> opened_;
};

}  // namespace gantry::cuda
