#include "kernel_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace gantry::bench {
namespace {

constexpr std::string_view kPreamble = R"(#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
#define KERNEL kernel
#define HELPER static
#define IN(T) global const T* restrict
#define OUT(T) global T* restrict
#define PART(T) global T*
#define SHARED local
#define ITEM get_global_id(0)
#define ITEMS get_global_size(0)
#define LANE get_local_id(0)
#define TEAM get_group_id(0)
#define MEET barrier(CLK_LOCAL_MEM_FENCE)
#define COUNT_UP(at, by) atomic_add(at, by)
#else
#define KERNEL extern "C" __global__
#define HELPER __device__ static
#define uint unsigned int
#define ulong unsigned long long
#define IN(T) const T* __restrict__
#define OUT(T) T* __restrict__
#define PART(T) T*
#define SHARED __shared__
#define ITEM (blockIdx.x * (ulong)blockDim.x + threadIdx.x)
#define ITEMS (gridDim.x * (ulong)blockDim.x)
#define LANE threadIdx.x
#define TEAM blockIdx.x
#define MEET __syncthreads()
#define COUNT_UP(at, by) atomicAdd(at, by)
#endif
#if CONTIGUOUS
#define PORTION(count) (((count) + ITEMS - 1) / ITEMS)
#define BEGIN(count) (PORTION(count) * ITEM)
#define END(count) (PORTION(count) * (ITEM + 1) < (count) ? PORTION(count) * (ITEM + 1) : (count))
#define STRIDE 1
#else
#define BEGIN(count) ITEM
#define END(count) (count)
#define STRIDE ITEMS
#endif
#line 1
)";

}  // namespace

Cut cut_for(const DeviceFacts& facts) noexcept {
  const std::size_t most = std::bit_floor(std::max<std::size_t>(facts.max_group, 1));
  // On the host's CPUs items are a loop, and more of them share the price of a group.
  if (facts.unified_memory)
    return {std::min<std::size_t>(1024, most), 1, std::size_t{4} * facts.compute_units, true};
  const std::size_t group = std::min<std::size_t>(256, most);
  return {group, group, std::size_t{8} * facts.compute_units, false};
}

ProgramSource program_of(std::string name, std::string_view body, CpuKernel callable,
                         const Cut& cut, Sums sums) {
  const std::string text = std::string(kPreamble) + std::string(body);
  const std::string defines =
      fmt::format("-DGROUP={} -DCONTIGUOUS={}", cut.reducing, cut.is_contiguous ? 1 : 0);
  const bool is_free = sums == Sums::any_order;
  ProgramSource source;
  source.opencl = {text, defines + (is_free ? " -cl-fast-relaxed-math" : "")};
  source.cuda = {text, defines + " --fmad=false"};
  source.cpu[name] = std::move(callable);
  source.name = std::move(name);
  return source;
}

}  // namespace gantry::bench
