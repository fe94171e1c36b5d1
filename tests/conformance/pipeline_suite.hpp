#pragma once  // pipeline_suite.hpp: what the tests of run_pipeline() share: kernels, data, devices.

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "devices.hpp"

namespace gantry {

/// Of memory that begins where any device takes it as a buffer.
template <class T>
struct OnPages {
  using value_type = T;
  OnPages() = default;
  template <class U>
  explicit OnPages(const OnPages<U>&) noexcept {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  }
  void deallocate(T* at, std::size_t) noexcept { ::operator delete(at, kAlignment); }
  friend bool operator==(const OnPages&, const OnPages&) noexcept { return true; }
  static constexpr std::align_val_t kAlignment{4096};
};
using Words = std::vector<std::uint32_t, OnPages<std::uint32_t>>;

inline constexpr const char* kPipelineText = R"(
kernel void weigh(global const uint* x, global const uint* y, global uint* z, ulong count) {
  size_t i = get_global_id(0);
  if (i < count) z[i] = x[i] + 3 * y[i];
}
kernel void twice(global uint* x, ulong count, ulong first) {
  size_t i = get_global_id(0);
  if (i < count) x[i] = 2 * x[i] + (uint)(first + i);
}
kernel void stencil(global const uint* x, global uint* y, ulong count, uint width, uint before,
                    uint after) {
  size_t i = get_global_id(0);
  if (i >= count * width) return;
  uint sum = 0;
  for (uint k = 0; k <= before + after; ++k) sum += (k + 1) * x[i + k * width];
  y[i] = sum;
}
kernel void rows(global const uint* x, global const uint* table, global uint* y, global uchar* odd,
                 ulong count, uint width, uint size) {
  size_t i = get_global_id(0);
  if (i >= count) return;
  uint sum = 0;
  for (uint k = 0; k < width; ++k) sum += x[i * width + k] * table[k % size];
  y[2 * i] = sum;
  y[2 * i + 1] = ~sum;
  odd[i] = sum & 1;
}
kernel void total(global const uint* x, global ulong* part, ulong count, uint items) {
  size_t i = get_global_id(0);
  ulong sum = 0;
  if (i >= items) return;
  for (ulong k = i; k < count; k += items) sum += x[k];
  part[i] += sum;
}
)";

inline constexpr const char* kPipelineCudaText = R"(
typedef unsigned int Word;
typedef unsigned long long Long;
__device__ Long place_of() { return blockIdx.x * static_cast<Long>(blockDim.x) + threadIdx.x; }
extern "C" __global__ void weigh(const Word* x, const Word* y, Word* z, Long count) {
  Long i = place_of();
  if (i < count) z[i] = x[i] + 3 * y[i];
}
extern "C" __global__ void twice(Word* x, Long count, Long first) {
  Long i = place_of();
  if (i < count) x[i] = 2 * x[i] + static_cast<Word>(first + i);
}
extern "C" __global__ void stencil(const Word* x, Word* y, Long count, Word width, Word before,
                                   Word after) {
  Long i = place_of();
  if (i >= count * width) return;
  Word sum = 0;
  for (Word k = 0; k <= before + after; ++k) sum += (k + 1) * x[i + k * width];
  y[i] = sum;
}
extern "C" __global__ void rows(const Word* x, const Word* table, Word* y, unsigned char* odd,
                                Long count, Word width, Word size) {
  Long i = place_of();
  if (i >= count) return;
  Word sum = 0;
  for (Word k = 0; k < width; ++k) sum += x[i * width + k] * table[k % size];
  y[2 * i] = sum;
  y[2 * i + 1] = ~sum;
  odd[i] = sum & 1;
}
extern "C" __global__ void total(const Word* x, Long* part, Long count, Word items) {
  Long i = place_of(), sum = 0;
  if (i >= items) return;
  for (Long k = i; k < count; k += items) sum += x[k];
  part[i] += sum;
}
)";

inline std::map<std::string, CpuKernel> pipeline_callables() {
  using Arguments = const CpuArguments&;
  using Slice = const CpuSlice&;
  std::map<std::string, CpuKernel> kernels;
  kernels["weigh"] = [](Arguments with, Slice slice) -> Result<void> {
    const auto x = with.span<std::uint32_t>(0), y = with.span<std::uint32_t>(1);
    const auto z = with.span<std::uint32_t>(2);
    const std::size_t last = std::min<std::size_t>(slice.last, with.value<std::uint64_t>(3));
    for (std::size_t i = slice.first; i < last; ++i) z[i] = x[i] + 3 * y[i];
    return {};
  };
  kernels["twice"] = [](Arguments with, Slice slice) -> Result<void> {
    const auto x = with.span<std::uint32_t>(0);
    const auto first = with.value<std::uint64_t>(2);
    const std::size_t last = std::min<std::size_t>(slice.last, with.value<std::uint64_t>(1));
    for (std::size_t i = slice.first; i < last; ++i)
      x[i] = 2 * x[i] + static_cast<std::uint32_t>(first + i);
    return {};
  };
  kernels["stencil"] = [](Arguments with, Slice slice) -> Result<void> {
    const auto x = with.span<std::uint32_t>(0), y = with.span<std::uint32_t>(1);
    const std::size_t width = with.value<std::uint32_t>(3);
    const std::uint32_t reach = with.value<std::uint32_t>(4) + with.value<std::uint32_t>(5);
    const std::size_t last =
        std::min<std::size_t>(slice.last, with.value<std::uint64_t>(2) * width);
    for (std::size_t i = slice.first; i < last; ++i) {
      std::uint32_t sum = 0;
      for (std::uint32_t k = 0; k <= reach; ++k) sum += (k + 1) * x[i + k * width];
      y[i] = sum;
    }
    return {};
  };
  kernels["rows"] = [](Arguments with, Slice slice) -> Result<void> {
    const auto x = with.span<std::uint32_t>(0), table = with.span<std::uint32_t>(1);
    const auto y = with.span<std::uint32_t>(2);
    const auto odd = with.span<std::uint8_t>(3);
    const std::size_t width = with.value<std::uint32_t>(5);
    const std::size_t size = with.value<std::uint32_t>(6);
    const std::size_t last = std::min<std::size_t>(slice.last, with.value<std::uint64_t>(4));
    for (std::size_t i = slice.first; i < last; ++i) {
      std::uint32_t sum = 0;
      for (std::size_t k = 0; k < width; ++k) sum += x[i * width + k] * table[k % size];
      y[2 * i] = sum;
      y[2 * i + 1] = ~sum;
      odd[i] = sum & 1;
    }
    return {};
  };
  kernels["total"] = [](Arguments with, Slice slice) -> Result<void> {
    const auto x = with.span<std::uint32_t>(0);
    const auto part = with.span<std::uint64_t>(1);
    const std::size_t items = with.value<std::uint32_t>(3);
    for (std::size_t i = slice.first; i < std::min(slice.last, items); ++i)
      for (std::size_t k = i; k < with.value<std::uint64_t>(2); k += items) part[i] += x[k];
    return {};
  };
  return kernels;
}

inline ProgramSource pipeline_source() {
  return {.name = "pipeline",
          .opencl = {kPipelineText, {}},
          .cuda = {kPipelineCudaText, {}},
          .cuda_image = {},
          .cpu = pipeline_callables()};
}

inline Words random_words(std::uint64_t count, std::uint64_t seed) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  Words words(count);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  return words;
}

class PipelineTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    auto made = GetParam().make(0);
    if (!made && made.error().code == Code::unsupported) GTEST_SKIP() << to_string(made.error());
    ASSERT_TRUE(made) << to_string(made.error());
    device_ = *std::move(made);
    auto built = device_->build(pipeline_source());
    ASSERT_TRUE(built) << to_string(built.error());
    program_ = *std::move(built);
  }

  [[nodiscard]] PipelineJob job(std::string_view kernel, std::uint64_t steps) const {
    return {*program_.kernel(kernel), steps};
  }
  PipelineReport run(const PipelineJob& job, const PipelineOptions& options = {}) const {
    auto report = run_pipeline(*device_, job, options);
    EXPECT_TRUE(report) << to_string(report.error());
    return report ? *std::move(report) : PipelineReport{};
  }
  [[nodiscard]] Error error_of(const PipelineJob& job, const PipelineOptions& options = {}) const {
    const auto report = run_pipeline(*device_, job, options);
    EXPECT_FALSE(report);
    return report ? Error{} : report.error();
  }

  std::shared_ptr<Device> device_;
  Program program_;
};

inline PipelineOptions in_chunks(std::uint64_t steps, unsigned depth = 3) {
  PipelineOptions options;
  options.chunk_steps = steps;
  options.depth = depth;
  return options;
}

inline std::string pipeline_device_name(const testing::TestParamInfo<DeviceCase>& info) {
  return info.param.name;
}

}  // namespace gantry
