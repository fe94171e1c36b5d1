// cuda_stub_products.cpp: a cuBLAS that there is not, on the stub's streams.

#include "core/base/half_float.hpp"
#include "cuda_stub.hpp"

using namespace cuda_stub;

struct CublasObject {
  StreamObject* stream = nullptr;
  int math_mode = 0;
};

namespace {

constexpr int kRefused = 14, kInvalid = 7, kUnsupported = 15;

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

template <class T>
double number(T value) {
  return static_cast<double>(value);
}
double number(Half value) {
  return gantry::float_of_f16(value.bits);
}
double number(Brain value) {
  return gantry::float_of_bf16(value.bits);
}
template <class T>
void store(T& to, double value) {
  to = static_cast<T>(value);
}
void store(Half& to, double value) {
  to.bits = gantry::f16_of_float(static_cast<float>(value));
}
void store(Brain& to, double value) {
  to.bits = gantry::bf16_of_float(static_cast<float>(value));
}

/// Of column-major matrices.
struct Columns {
  std::uint64_t data;
  int stride;
  template <class T>
  T& at(int row, int column) const {
    return reinterpret_cast<T*>(data)[std::int64_t{column} * stride + row];
  }
};

template <class T>
void multiply(int m, int n, int k, Columns a, Columns b, bool adds, Columns c) {
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      double sum = adds ? number(c.at<T>(i, j)) : 0;
      for (int p = 0; p < k; ++p) sum += number(a.at<T>(i, p)) * number(b.at<T>(p, j));
      store(c.at<T>(i, j), sum);
    }
}

using Multiply = void (*)(int, int, int, Columns, Columns, bool, Columns);
Multiply multiply_of(int type) {
  switch (type) {
    case 0:
      return multiply<float>;
    case 1:
      return multiply<double>;
    case 2:
      return multiply<Half>;
    case 14:
      return multiply<Brain>;
    default:
      return nullptr;
  }
}

struct Sides {
  std::int64_t m, n, k, adds;
};
struct Places {
  std::int64_t a, a_stride, b, b_stride, c, c_stride;
};

template <class T>
void multiply_whole(const Launch& launch) {
  const auto sides = launch.value<Sides>(3);
  const auto places = launch.value<Places>(4);
  const T *a = launch.pointer<T>(0) + places.a, *b = launch.pointer<T>(1) + places.b;
  T* const c = launch.pointer<T>(2) + places.c;
  for (std::int64_t i = 0; i < sides.m; ++i)
    for (std::int64_t j = 0; j < sides.n; ++j) {
      T sum = sides.adds != 0 ? c[i * places.c_stride + j] : 0;
      for (std::int64_t p = 0; p < sides.k; ++p)
        sum += a[i * places.a_stride + p] * b[p * places.b_stride + j];
      c[i * places.c_stride + j] = sum;
    }
}

}  // namespace

void cuda_stub::multiply_i32(const Launch& launch) {
  multiply_whole<std::uint32_t>(launch);
}
void cuda_stub::multiply_i64(const Launch& launch) {
  multiply_whole<std::uint64_t>(launch);
}

extern "C" {

int cublasCreate_v2(CublasObject** handle) {
  if (enter("cublasCreate_v2") != kSuccess) return kRefused;
  *handle = new CublasObject;
  return 0;
}
int cublasDestroy_v2(CublasObject* handle) {
  delete handle;
  return 0;
}
int cublasGetVersion_v2(CublasObject*, int* version) {
  *version = 130100;
  return 0;
}
int cublasSetStream_v2(CublasObject* handle, StreamObject* stream) {
  handle->stream = stream;
  return 0;
}
int cublasSetMathMode(CublasObject* handle, int mode) {
  handle->math_mode = mode;
  return 0;
}
int cublasGemmEx(CublasObject* handle, int transpose_a, int transpose_b, int m, int n, int k,
                 const void* alpha, const void* a, int a_type, int a_stride, const void* b,
                 int b_type, int b_stride, const void* beta, void* c, int c_type, int c_stride,
                 int sums, int) {
  if (enter("cublasGemmEx") != kSuccess) return kRefused;
  const bool is_double = a_type == 1;
  const Multiply multiply = multiply_of(a_type);
  if (multiply == nullptr || a_type != b_type || a_type != c_type || handle->math_mode != 16 ||
      sums != (is_double ? 70 : 68))
    return kUnsupported;
  const auto scale = [&](const void* at) {
    return is_double ? *static_cast<const double*>(at) : double{*static_cast<const float*>(at)};
  };
  if (transpose_a != 0 || transpose_b != 0 || scale(alpha) != 1 || m < 1 || n < 1 || k < 1 ||
      a_stride < m || b_stride < k || c_stride < m)
    return kInvalid;
  const auto at = [](const void* memory) { return reinterpret_cast<std::uint64_t>(memory); };
  const int fault = scripted_fault("cublasGemmEx");
  give(handle->stream, [=, adds = scale(beta) != 0] {
    if (fault != kSuccess) return fault;
    multiply(m, n, k, {at(a), a_stride}, {at(b), b_stride}, adds, {at(c), c_stride});
    return kSuccess;
  });
  return 0;
}

}  // extern "C"
