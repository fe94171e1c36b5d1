#pragma once  // bench/pipeline/kernel_text.hpp: one text of a kernel for OpenCL C and CUDA C++.

#include <gantry/device.hpp>
#include <string>

namespace gantry::bench {

/// How a device wants its work cut.
struct Cut {
  std::size_t group = 1;       ///< Work items of a group, where each item has a step of its own.
  std::size_t reducing = 1;    ///< The same where items share many steps: a power of two.
  std::size_t groups = 1;      ///< Groups that share many steps.
  bool is_contiguous = false;  ///< An item takes neighbouring steps: best for the caches of CPUs.
  [[nodiscard]] LaunchRange each(std::uint64_t items) const noexcept {
    return LaunchRange::linear(items, group);
  }
  [[nodiscard]] LaunchRange shared() const noexcept {
    return LaunchRange::linear(groups * reducing, reducing);
  }
};
[[nodiscard]] Cut cut_for(const DeviceFacts& facts) noexcept;

/// What sums may do to whole numbers that they may not do to others.
enum class Sums : std::uint8_t {
  in_order,  ///< As a plain loop does, without fused operations: results are the loop's to the bit.
  any_order,  ///< The kernel's sums are exact in any order.
};

/// A program of one kernel, `name`, whose `body` is written in the words of the preamble:
/// KERNEL, HELPER, IN(T), OUT(T), PART(T), SHARED, ITEM, LANE, TEAM, MEET, COUNT_UP(at, by), and
/// for steps that are shared out BEGIN(count), END(count), STRIDE, GROUP.
[[nodiscard]] ProgramSource program_of(std::string name, std::string_view body, CpuKernel callable,
                                       const Cut& cut, Sums sums = Sums::in_order);

}  // namespace gantry::bench
