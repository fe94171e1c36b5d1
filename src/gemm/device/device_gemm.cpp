#include <algorithm>
#include <array>
#include <gantry/gemm/device.hpp>
#include <mutex>
#include <optional>

#include "base/result.hpp"
#include "device/gemm_arguments.hpp"
#include "gemm/device/kernels.hpp"

namespace gantry {
namespace {

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

}  // namespace gantry
