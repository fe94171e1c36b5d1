#include <algorithm>
#include <array>
#include <gantry/gemm.hpp>
#include <gantry/kernel.hpp>
#include <mutex>
#include <optional>

#include "core/base/result.hpp"
#include "device/gemm_arguments.hpp"
#include "ranks/gemm/libraries.hpp"

namespace gantry {
namespace {

// ---- kernels of ours that multiply, in every language -------------------------------------------

/// Work items of a group along each side, and elements of c that a group computes along each.
constexpr std::size_t kGemmGroup = 16;
constexpr std::size_t kGemmTile = 64;

/// Rows of c that a `cpu` device's work item computes.
constexpr std::int64_t kGemmCpuRows = 96;

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

/// The program whose one kernel is to_string(element). Its languages are those in which this
/// element is multiplied by us: CUDA C++ lacks floats of 16 bits.
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

// ---- in the memory of a device ------------------------------------------------------------------

tl::unexpected<Error> wrong(std::string what, std::string hint = {}) {
  return fail(Code::invalid_argument, "gemm: " + std::move(what), std::move(hint));
}

/// Errors: `invalid_argument` when an element of it lies outside its buffer.
Result<void> check_matrix(std::string_view name, const DeviceMatrix& matrix, std::int64_t rows,
                          std::int64_t cols, std::int64_t element_bytes) {
  if (rows == 0 || cols == 0) return {};
  if (matrix.buffer == nullptr || !*matrix.buffer) return wrong(fmt::format("{} is empty", name));
  const auto& [buffer, offset, stride] = matrix;
  if (stride < cols)
    return wrong(fmt::format("{} of {} x {} has a stride of {}", name, rows, cols, stride),
                 "a stride counts elements and is at least as long as a row");
  if (offset % static_cast<Bytes>(element_bytes) != 0)
    return wrong(fmt::format("{} begins at byte {}", name, offset),
                 fmt::format("begin at a multiple of {}", element_bytes));
  std::int64_t bytes = 0;
  if (!__builtin_mul_overflow(rows - 1, stride, &bytes) &&
      !__builtin_add_overflow(bytes, cols, &bytes) &&
      !__builtin_mul_overflow(bytes, element_bytes, &bytes) && offset <= buffer->size() &&
      static_cast<Bytes>(bytes) <= buffer->size() - offset)
    return {};
  return wrong(
      fmt::format("{} of {} x {}, stride {}, from byte {} on, ends behind its buffer of {} "
                  "bytes",
                  name, rows, cols, stride, offset, buffer->size()));
}

Result<void> check(const DeviceGemm& product, std::int64_t element_bytes) {
  const auto& [type, m, n, k, a, b, c, adds] = product;
  if (m < 0 || n < 0 || k < 0)
    return wrong(fmt::format("{} x {} times {} x {}: a side is negative", m, k, k, n));
  GANTRY_TRY(check_matrix("a", a, m, k, element_bytes));
  GANTRY_TRY(check_matrix("b", b, k, n, element_bytes));
  return check_matrix("c", c, m, n, element_bytes);
}

constexpr std::int64_t kMostRows = std::int64_t{1} << 21;

/// A single row has no stride; libraries may refuse a large one all the same.
DeviceGemm with_strides_that_count(DeviceGemm product) noexcept {
  if (product.m == 1) product.a.stride = product.k;
  if (product.m == 1) product.c.stride = product.n;
  if (product.k == 1) product.b.stride = product.n;
  return product;
}

LaunchRange range_of(const DeviceGemm& product, DeviceKind kind) noexcept {
  const auto count = [](std::int64_t side, std::size_t each) {
    return (static_cast<std::size_t>(side) + each - 1) / each;
  };
  if (kind == DeviceKind::cpu) return LaunchRange::linear(count(product.m, kGemmCpuRows));
  return {{count(product.n, kGemmTile) * kGemmGroup, count(product.m, kGemmTile) * kGemmGroup, 1},
          {kGemmGroup, kGemmGroup, 1}};
}

/// Kernels of one device, by type; each is built when it is first asked for.
class KernelGemm final : public DeviceGemmLibrary {
 public:
  KernelGemm(std::shared_ptr<Device> device, GemmFacts facts, Program library,
             std::shared_ptr<GemmLibrary> on_cpu)
      : device_(std::move(device)),
        facts_(std::move(facts)),
        library_(std::move(library)),
        on_cpu_(std::move(on_cpu)) {}

  const GemmFacts& facts() const noexcept override { return facts_; }

  bool takes(const DataType& type) const noexcept override {
    const auto element = element_of(type);
    if (!element) return false;
    switch (device_->facts().kind) {
      case DeviceKind::cpu:
        return on_cpu_->takes(type);
      case DeviceKind::opencl:
        return true;
      case DeviceKind::cuda:
        break;
    }
    return library_ || bytes_of(*element) > 2;
  }

  Result<DeviceEvent> multiply(DeviceQueue& queue, const DeviceGemm& product) override {
    return guarded([&]() -> Result<DeviceEvent> {
      const auto element = element_of(product.type);
      if (!element || !takes(product.type)) return does_not_take(product.type);
      GANTRY_TRY(check(product, static_cast<std::int64_t>(bytes_of(*element))));
      const bool is_nothing = product.m == 0 || product.n == 0;
      if (is_nothing || (product.k == 0 && product.adds)) return queue.record();
      if (product.k == 0) return clear(queue, product, bytes_of(*element));
      GANTRY_ASSIGN(const Kernel kernel, kernel_of(*element));
      return launch_all(queue, kernel, with_strides_that_count(product),
                        static_cast<std::int64_t>(bytes_of(*element)));
    });
  }

 private:
  [[nodiscard]] tl::unexpected<Error> does_not_take(const DataType& type) const {
    return fail(Code::unsupported,
                fmt::format("gemm: {} on {} does not multiply {}", facts_.library,
                            device_->facts().name, text_of(type)),
                device_->facts().kind == DeviceKind::cuda ? "install cuBLAS" : "");
  }

  Result<DeviceEvent> clear(DeviceQueue& queue, const DeviceGemm& product, Bytes element_bytes) {
    const Bytes row_bytes = static_cast<Bytes>(product.n) * element_bytes;
    const bool is_whole = product.n == product.c.stride;
    const Bytes rows = is_whole ? 1 : static_cast<Bytes>(product.m);
    const Bytes bytes = is_whole ? row_bytes * static_cast<Bytes>(product.m) : row_bytes;
    Result<DeviceEvent> event = DeviceEvent();
    for (Bytes row = 0; row < rows && event; ++row)
      event =
          queue.fill(*product.c.buffer,
                     product.c.offset + row * static_cast<Bytes>(product.c.stride) * element_bytes,
                     bytes, std::byte{});
    return event;
  }

  // A launch takes so many rows at most: CUDA has no more groups in the second dimension.
  Result<DeviceEvent> launch_all(DeviceQueue& queue, const Kernel& kernel,
                                 const DeviceGemm& product, std::int64_t element_bytes) {
    if (device_->facts().kind == DeviceKind::cpu)
      return launch(queue, kernel, product, element_bytes);
    Result<DeviceEvent> event = DeviceEvent();
    for (std::int64_t row = 0; row < product.m && event; row += kMostRows) {
      DeviceGemm part = product;
      part.m = std::min(kMostRows, product.m - row);
      part.a.offset += static_cast<Bytes>(row * product.a.stride * element_bytes);
      part.c.offset += static_cast<Bytes>(row * product.c.stride * element_bytes);
      event = launch(queue, kernel, part, element_bytes);
    }
    return event;
  }

  Result<DeviceEvent> launch(DeviceQueue& queue, const Kernel& kernel, const DeviceGemm& product,
                             std::int64_t element_bytes) {
    const auto first = [&](const DeviceMatrix& matrix) {
      return static_cast<std::int64_t>(matrix.offset) / element_bytes;
    };
    const GemmSides sides{product.m, product.n, product.k, product.adds ? 1 : 0};
    const GemmPlaces places{first(product.a), product.a.stride, first(product.b),
                            product.b.stride, first(product.c), product.c.stride};
    return queue.launch(kernel,
                        {*product.a.buffer, *product.b.buffer, *product.c.buffer, sides, places},
                        range_of(product, device_->facts().kind));
  }

  Result<Kernel> kernel_of(Element element) {
    const std::lock_guard lock(mutex_);
    Kernel& kernel = kernels_[static_cast<std::size_t>(element)];
    if (kernel) return kernel;
    const std::string_view name = to_string(element);
    if (library_)
      if (auto found = library_.kernel(name)) return kernel = *std::move(found);
    GANTRY_ASSIGN(const Program program, device_->build(gemm_source(element, on_cpu_)));
    GANTRY_ASSIGN(kernel, program.kernel(name));
    return kernel;
  }

  const std::shared_ptr<Device> device_;
  const GemmFacts facts_;
  const Program library_;  // empty: it has none
  const std::shared_ptr<GemmLibrary> on_cpu_;
  std::mutex mutex_;
  std::array<Kernel, kAllElements.size()> kernels_;
};

GemmFacts facts_of_ours(const Device& device, const Error& why) {
  return {"gantry", {}, device.facts().about, 1, why.message};
}

// ---- in the memory of the host, by a device -----------------------------------------------------

/// A matrix in host memory, of at least one element, in bytes.
struct HostMatrix {
  Bytes rows = 0;
  Bytes row_bytes = 0;
  Bytes stride_bytes = 0;
  [[nodiscard]] Bytes dense_bytes() const noexcept { return rows * row_bytes; }
};

void copy_matrix(std::byte* to, Bytes to_stride, const std::byte* from, Bytes from_stride,
                 const HostMatrix& matrix) {
  for (Bytes row = 0; row < matrix.rows; ++row)
    std::memcpy(to + row * to_stride, from + row * from_stride, matrix.row_bytes);
}

/// What the device copies from and to. A device that is given up may go on with a copy after its
/// queue has ended, so operations hold this, and the caller's memory is never theirs.
struct StagedMatrices {
  std::array<std::vector<std::byte>, 3> dense;
};

class HostGemm final : public CheckedGemm {
 public:
  HostGemm(std::shared_ptr<Device> device, std::shared_ptr<DeviceGemmLibrary> library,
           std::unique_ptr<DeviceQueue> queue)
      : CheckedGemm(library->facts()),
        device_(std::move(device)),
        library_(std::move(library)),
        queue_(std::move(queue)) {}

 protected:
  bool takes_element(Element element) const noexcept override {
    return library_->takes(type_of(element));
  }

  Result<void> compute(const Gemm& product, Element element) override {
    const std::lock_guard lock(mutex_);
    const Bytes bytes = bytes_of(element);
    if (staged_ == nullptr) staged_ = std::make_shared<StagedMatrices>();
    const auto queued = guarded([&] { return queue_all(product, bytes); });
    const auto drained = queue_->drain();
    if (queued && drained) {
      const HostMatrix c = matrix_of(product.m, product.n, product.c_stride, bytes);
      copy_matrix(product.c, c.stride_bytes, staged_->dense[2].data(), c.row_bytes, c);
      return {};
    }
    staged_.reset();  // what failed may still be at it
    return queued ? drained : queued;
  }

 private:
  static HostMatrix matrix_of(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                              Bytes bytes) noexcept {
    return {static_cast<Bytes>(rows), static_cast<Bytes>(cols) * bytes,
            static_cast<Bytes>(stride) * bytes};
  }

  Result<void> queue_all(const Gemm& product, Bytes bytes) {
    const auto& [type, m, n, k, a, a_stride, b, b_stride, c, c_stride, adds] = product;
    GANTRY_TRY(bring(0, a, matrix_of(m, k, a_stride, bytes), true));
    GANTRY_TRY(bring(1, b, matrix_of(k, n, b_stride, bytes), true));
    GANTRY_TRY(bring(2, c, matrix_of(m, n, c_stride, bytes), adds));
    GANTRY_TRY(library_->multiply(*queue_, {.type = type,
                                            .m = m,
                                            .n = n,
                                            .k = k,
                                            .a = {&buffers_[0], 0, k},
                                            .b = {&buffers_[1], 0, n},
                                            .c = {&buffers_[2], 0, n},
                                            .adds = adds}));
    GANTRY_TRY(queue_->copy_out(buffers_[2], 0, staged_->dense[2], staged_));
    return {};
  }

  /// Makes room for a matrix, and copies it there if it `counts`.
  Result<void> bring(std::size_t which, const std::byte* from, const HostMatrix& matrix,
                     bool counts) {
    std::vector<std::byte>& dense = staged_->dense[which];
    dense.resize(matrix.dense_bytes());
    if (buffers_[which].size() < dense.size()) {
      buffers_[which] = {};
      GANTRY_ASSIGN(buffers_[which], device_->allocate(dense.size()));
    }
    if (!counts) return {};
    copy_matrix(dense.data(), matrix.row_bytes, from, matrix.stride_bytes, matrix);
    GANTRY_TRY(queue_->copy_in(buffers_[which], 0, dense, staged_));
    return {};
  }

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<DeviceGemmLibrary> library_;
  std::mutex mutex_;
  std::shared_ptr<StagedMatrices> staged_;
  std::array<DeviceBuffer, 3> buffers_;
  std::unique_ptr<DeviceQueue> queue_;  // goes first, and waits for what uses the buffers
};

}  // namespace

DeviceGemmLibrary::~DeviceGemmLibrary() = default;

Result<std::shared_ptr<DeviceGemmLibrary>> open_gemm(const std::shared_ptr<Device>& device) {
  return guarded([&]() -> Result<std::shared_ptr<DeviceGemmLibrary>> {
    if (device == nullptr) return wrong("no device");
    if (device->facts().kind == DeviceKind::cpu) {
      GANTRY_ASSIGN(auto on_cpu, gantry::open_gemm());
      GemmFacts facts = on_cpu->facts();
      return std::make_shared<KernelGemm>(device, std::move(facts), Program(), std::move(on_cpu));
    }
    auto library = device->gemm_program();
    if (!library)
      return std::make_shared<KernelGemm>(device, facts_of_ours(*device, library.error()),
                                          Program(), nullptr);
    GemmFacts facts{"cublas", std::string(library->log()), device->facts().about, 1,
                    "the device's own library"};
    return std::make_shared<KernelGemm>(device, std::move(facts), *library, nullptr);
  });
}

Result<std::shared_ptr<GemmLibrary>> make_host_gemm(
    const std::shared_ptr<Device>& device, const std::shared_ptr<DeviceGemmLibrary>& library) {
  return guarded([&]() -> Result<std::shared_ptr<GemmLibrary>> {
    if (device == nullptr || library == nullptr)
      return fail(Code::invalid_argument, "gemm: no device, or no library of its products");
    GANTRY_ASSIGN(auto queue, device->open_queue(QueueRole::compute));
    return std::make_shared<HostGemm>(device, library, std::move(queue));
  });
}

}  // namespace gantry
