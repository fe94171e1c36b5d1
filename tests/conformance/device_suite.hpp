#pragma once  // device_suite.hpp: what the suite's files share: the fixture and its kernels.

#include <algorithm>
#include <bit>
#include <numeric>
#include <thread>
#include <vector>

#include "core/base/test_bytes.hpp"
#include "devices.hpp"

namespace gantry {

using Words = std::vector<std::uint32_t>;

using test::random_bytes;

/// What holds a kernel up until it is opened, where the host can do that.
struct Gate {
  std::atomic<bool> is_open{false};
  std::atomic<int> entered{0};
};

inline constexpr const char* kSuiteText = R"(
kernel void add(global uint* x, uint count, uint plus) {
  size_t i = get_global_id(0);
  if (i < count) x[i] += plus;
}
kernel void axpy(global float* y, global const float* x, float a, uint count) {
  size_t i = get_global_id(0);
  if (i < count) y[i] = a * x[i] + y[i];
}
kernel void place(global uint* x, uint width, uint height) {
  size_t column = get_global_id(0), row = get_global_id(1);
  if (column < width && row < height) x[row * width + column] = (uint)(row * 1000 + column);
}
kernel void sums(global const uint* x, global uint* sum, local uint* scratch, uint count) {
  size_t i = get_global_id(0), l = get_local_id(0);
  scratch[l] = i < count ? x[i] : 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (l != 0) return;
  uint all = 0;
  for (size_t k = 0; k < get_local_size(0); ++k) all += scratch[k];
  sum[get_group_id(0)] = all;
}
kernel void hold(global uint* x, uint rounds) {
  uint v = x[0] | 1;
  for (uint i = 0; i < rounds; ++i) { v ^= v << 13; v ^= v >> 17; v ^= v << 5; }
  x[0] = v;
}
)";

inline constexpr const char* kSuiteCudaText = R"(
__device__ unsigned long long place_of() {
  return blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
}
extern "C" __global__ void add(unsigned* x, unsigned count, unsigned plus) {
  unsigned long long i = place_of();
  if (i < count) x[i] += plus;
}
extern "C" __global__ void axpy(float* y, const float* x, float a, unsigned count) {
  unsigned long long i = place_of();
  if (i < count) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void place(unsigned* x, unsigned width, unsigned height) {
  unsigned column = place_of(), row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column < width && row < height) x[row * width + column] = row * 1000 + column;
}
extern "C" __global__ void sums(const unsigned* x, unsigned* sum, unsigned count) {
  extern __shared__ unsigned scratch[];
  unsigned long long i = place_of();
  scratch[threadIdx.x] = i < count ? x[i] : 0;
  __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned all = 0;
  for (unsigned k = 0; k < blockDim.x; ++k) all += scratch[k];
  sum[blockIdx.x] = all;
}
extern "C" __global__ void hold(unsigned* x, unsigned rounds) {
  unsigned v = x[0] | 1;
  for (unsigned i = 0; i < rounds; ++i) { v ^= v << 13; v ^= v >> 17; v ^= v << 5; }
  x[0] = v;
}
)";

inline std::map<std::string, CpuKernel> suite_callables(const std::shared_ptr<Gate>& gate) {
  using Arguments = const CpuArguments&;
  using Slice = const CpuSlice&;
  std::map<std::string, CpuKernel> kernels;
  kernels["add"] = [](Arguments with, Slice slice) -> Result<void> {
    const auto x = with.span<std::uint32_t>(0);
    const auto count = with.value<std::uint32_t>(1);
    for (std::size_t i = slice.first; i < std::min<std::size_t>(slice.last, count); ++i)
      x[i] += with.value<std::uint32_t>(2);
    return {};
  };
  kernels["axpy"] = [](Arguments with, Slice slice) -> Result<void> {
    const auto y = with.span<float>(0);
    const auto x = with.span<float>(1);
    for (std::size_t i = slice.first; i < slice.last && i < with.value<std::uint32_t>(3); ++i)
      y[i] = with.value<float>(2) * x[i] + y[i];
    return {};
  };
  kernels["place"] = [](Arguments with, Slice slice) -> Result<void> {
    const auto x = with.span<std::uint32_t>(0);
    const std::size_t width = with.value<std::uint32_t>(1);
    for (std::size_t i = slice.first; i < slice.last; ++i)
      x[i] = static_cast<std::uint32_t>(i / width * 1000 + i % width);
    return {};
  };
  kernels["sums"] = [](Arguments with, Slice slice) -> Result<void> {
    const std::size_t group = slice.range.group_count();
    const auto scratch = with.span<std::uint32_t>(2);
    for (std::size_t first = slice.first; first < slice.last; first += group) {
      std::fill(scratch.begin(), scratch.end(), 0u);
      const std::size_t last =
          std::min({first + group, slice.last, with.span<std::uint32_t>(0).size()});
      for (std::size_t i = first; i < last; ++i)
        scratch[i - first] = with.span<std::uint32_t>(0)[i];
      with.span<std::uint32_t>(1)[first / group] =
          std::accumulate(scratch.begin(), scratch.end(), 0u);
    }
    return {};
  };
  kernels["hold"] = [gate](Arguments with, Slice slice) -> Result<void> {
    ++gate->entered;
    while (!gate->is_open.load() && !slice.should_stop()) std::this_thread::yield();
    with.span<std::uint32_t>(0)[0] |= 1;
    return {};
  };
  return kernels;
}

class DeviceConformance : public testing::TestWithParam<DeviceCase> {
 protected:
  // Unusable here means that it says so; any other refusal is a failure.
  void SetUp() override {
    auto made = GetParam().make(0);
    if (!made && made.error().code == Code::unsupported) {
      EXPECT_FALSE(made.error().hint.empty());
      GTEST_SKIP() << to_string(made.error());
    }
    ASSERT_TRUE(made) << to_string(made.error());
    device_ = *std::move(made);
    in_ = *device_->open_queue(QueueRole::copy_in);
    compute_ = *device_->open_queue(QueueRole::compute);
    out_ = *device_->open_queue(QueueRole::copy_out);
    const auto built = device_->build(source());
    ASSERT_TRUE(built) << to_string(built.error());
    program_ = *built;
  }
  void TearDown() override { gate_->is_open = true; }

  [[nodiscard]] ProgramSource source() const {
    return {.name = "suite",
            .opencl = {kSuiteText, {}},
            .cuda = {kSuiteCudaText, {}},
            .cuda_image = {},
            .cpu = suite_callables(gate_)};
  }
  [[nodiscard]] Kernel kernel(std::string_view name) const { return *program_.kernel(name); }
  [[nodiscard]] DeviceBuffer buffer(Bytes size) const {
    auto made = device_->allocate(size);
    EXPECT_TRUE(made) << to_string(made.error());
    return *std::move(made);
  }
  [[nodiscard]] DeviceBuffer zeros(std::size_t words) const {
    DeviceBuffer made = buffer(words * sizeof(std::uint32_t));
    ok(in_->fill(made, 0, made.size(), std::byte{}));
    ok(in_->drain());
    return made;
  }
  [[nodiscard]] Words words_of(const DeviceBuffer& buffer) const {
    Words words(buffer.size() / sizeof(std::uint32_t));
    ok(out_->copy_out(buffer, 0, std::as_writable_bytes(std::span(words))));
    ok(out_->drain());
    return words;
  }
  /// A kernel that does not end before open_gate(); where the host cannot hold it up, not for long.
  DeviceEvent hold(const DeviceBuffer& on) const {
    const std::uint32_t rounds = std::uint32_t{1} << 28;
    return *compute_->launch(kernel("hold"), {on, rounds}, LaunchRange::linear(1));
  }
  void open_gate() const { gate_->is_open = true; }
  [[nodiscard]] bool can_hold() const { return device_->facts().stops_kernels; }

  template <class T>
  static void ok(const Result<T>& result) {
    EXPECT_TRUE(result) << to_string(result.error());
  }
  template <class T>
  static Error error_of(const Result<T>& result) {
    EXPECT_FALSE(result);
    return result ? Error{} : result.error();
  }

  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::shared_ptr<Device> device_;
  std::unique_ptr<DeviceQueue> in_, compute_, out_;
  Program program_;
};

inline std::string device_name(const testing::TestParamInfo<DeviceCase>& info) {
  return info.param.name;
}

}  // namespace gantry
