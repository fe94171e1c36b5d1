#include "gemm/device/kernels.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "device/gemm_arguments.hpp"

namespace gantry {
namespace {

// How an element is read and written, where that is more than an index.
struct KernelWords {
  std::string_view element;  // as it lies in memory
  std::string_view sum;
  std::string_view load = "p[i]";
  std::string_view store = "p[i] = v";
};

KernelWords opencl_words(Element element) {
  switch (element) {
    case Element::f64:
      return {"double", "double"};
    case Element::f32:
      return {"float", "float"};
    case Element::f16:
      return {"half", "float", "vload_half(i, p)", "vstore_half_rte(v, i, p)"};
    case Element::bf16:
      return {"ushort", "float", "as_float((uint)p[i] << 16)", "p[i] = bf16_of(v)"};
    case Element::i32:
      return {"uint", "uint"};
    case Element::i64:
      break;
  }
  return {"ulong", "ulong"};
}

constexpr std::string_view kOpenClHead = R"(
#define KERNEL kernel
#define IN global const
#define OUT global
#define SHARED local
#define SYNC barrier(CLK_LOCAL_MEM_FENCE)
#define ITEM(d) ((int)get_local_id(d))
#define GROUP(d) ((Whole)get_group_id(d))
typedef long Whole;
ushort bf16_of(float v) {
  uint bits = as_uint(v);
  if (isnan(v)) return (ushort)(bits >> 16 | 0x40);
  return (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
)";

constexpr std::string_view kCudaHead = R"(
#define KERNEL extern "C" __global__
#define IN const
#define OUT
#define SHARED __shared__
#define SYNC __syncthreads()
#define ITEM(d) ((int)(d == 0 ? threadIdx.x : threadIdx.y))
#define GROUP(d) ((Whole)(d == 0 ? blockIdx.x : blockIdx.y))
typedef long long Whole;
)";

// A group of 16 x 16 items computes 64 x 64 elements, 16 of the depth at a time; an item 4 x 4 of
// them, 16 apart. Each element is summed in the order of the depth, wherever the tile begins:
// pieces of rows and columns keep the bits of the whole.
constexpr std::string_view kTypes = R"(
typedef struct { Whole m, n, k, adds; } Sides;
typedef struct { Whole a, a_stride, b, b_stride, c, c_stride; } Places;
)";
constexpr std::string_view kBody = R"((IN Element* a, IN Element* b, OUT Element* c, Sides sides,
                                       Places places) {
  SHARED Sum left[16][64];
  SHARED Sum right[16][64];
  const int x = ITEM(0), y = ITEM(1), item = y * 16 + x;
  const Whole row = GROUP(1) * 64, col = GROUP(0) * 64;
  Sum sums[4][4];
  for (int i = 0; i < 16; ++i) sums[i / 4][i % 4] = 0;
  for (Whole first = 0; first < sides.k; first += 16) {
    for (int at = item; at < 1024; at += 256) {
      const Whole r = row + at / 16, k = first + at % 16, c2 = col + at % 64, k2 = first + at / 64;
      left[at % 16][at / 16] =
          r < sides.m && k < sides.k ? LOAD(a, places.a + r * places.a_stride + k) : 0;
      right[at / 64][at % 64] =
          c2 < sides.n && k2 < sides.k ? LOAD(b, places.b + k2 * places.b_stride + c2) : 0;
    }
    SYNC;
    for (int k = 0; k < 16; ++k)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sums[i][j] += left[k][y + 16 * i] * right[k][x + 16 * j];
    SYNC;
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const Whole r = row + y + 16 * i, c2 = col + x + 16 * j;
      if (r >= sides.m || c2 >= sides.n) continue;
      const Whole at = places.c + r * places.c_stride + c2;
      STORE(c, at, sides.adds != 0 ? LOAD(c, at) + sums[i][j] : sums[i][j]);
    }
}
)";

std::string text_of_kernel(std::string_view head, const KernelWords& words, Element element) {
  const std::string_view enables = element == Element::f64 && head == kOpenClHead
                                       ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
                                       : std::string_view();
  return fmt::format(
      "{}{}#define Element {}\n#define Sum {}\n#define LOAD(p, i) ({})\n"
      "#define STORE(p, i, v) {}\n{}KERNEL void {}{}",
      enables, head, words.element, words.sum, words.load, words.store, kTypes, to_string(element),
      kBody);
}

/// Some rows of c on the CPU.
Result<void> compute_rows(GemmLibrary& library, Element element, const CpuArguments& arguments,
                          const CpuSlice& slice) {
  const auto sides = arguments.value<GemmSides>(kGemmBuffers);
  const auto places = arguments.value<GemmPlaces>(kGemmBuffers + 1);
  const auto at = [&](std::size_t buffer, std::int64_t index) {
    return arguments.bytes(buffer).data() + index * static_cast<std::int64_t>(bytes_of(element));
  };
  for (std::size_t block = slice.first; block < slice.last && !slice.should_stop(); ++block) {
    const std::int64_t row = static_cast<std::int64_t>(block) * kGemmCpuRows;
    GANTRY_TRY(library.multiply({.type = type_of(element),
                                 .m = std::min(kGemmCpuRows, sides.m - row),
                                 .n = sides.n,
                                 .k = sides.k,
                                 .a = at(0, places.a + row * places.a_stride),
                                 .a_stride = places.a_stride,
                                 .b = at(1, places.b),
                                 .b_stride = places.b_stride,
                                 .c = at(2, places.c + row * places.c_stride),
                                 .c_stride = places.c_stride,
                                 .adds = sides.adds != 0}));
  }
  return {};
}

}  // namespace

ProgramSource gemm_source(Element element, std::shared_ptr<GemmLibrary> on_cpu) {
  const std::string name(to_string(element));
  ProgramSource source{.name = "gemm " + name};
  source.opencl.source = text_of_kernel(kOpenClHead, opencl_words(element), element);
  switch (element) {
    case Element::f64:
    case Element::f32:
      source.cuda.source = text_of_kernel(kCudaHead, opencl_words(element), element);
      break;
    case Element::i32:
      source.cuda.source = text_of_kernel(kCudaHead, {"unsigned int", "unsigned int"}, element);
      break;
    case Element::i64:
      source.cuda.source =
          text_of_kernel(kCudaHead, {"unsigned long long", "unsigned long long"}, element);
      break;
    default:
      break;
  }
  if (on_cpu != nullptr)
    source.cpu[name] = [library = std::move(on_cpu), element](const CpuArguments& arguments,
                                                              const CpuSlice& slice) {
      return compute_rows(*library, element, arguments, slice);
    };
  return source;
}

}  // namespace gantry
