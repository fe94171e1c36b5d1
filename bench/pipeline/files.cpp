// Cases whose ends are files: file-scale (in and out), hot and cold.

#include <algorithm>

#include "cases.hpp"
#include "data_file.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kMostReadsChecked = 1 << 12;  // each is a read of its own
constexpr Bytes kWord = sizeof(std::uint32_t);

constexpr std::string_view kScale = R"(
KERNEL void file_scale(IN(uint) x, OUT(uint) y, ulong count) {
  const ulong i = ITEM;
  if (i < count) y[i] = 3u * x[i] + 1u;
}
)";

Result<void> file_scale(const CpuArguments& with, const CpuSlice& slice) {
  const auto* const x = with.span<std::uint32_t>(0).data();
  auto* const y = with.span<std::uint32_t>(1).data();
  const std::uint64_t last = std::min<std::uint64_t>(slice.last, with.value<std::uint64_t>(2));
  for (std::uint64_t i = slice.first; i < last; ++i) y[i] = 3 * x[i] + 1;
  return {};
}

class FileScale final : public Workload {
 public:
  FileScale(std::uint64_t steps, Cache cache) : Workload(steps), cache_(cache) {
    const Array x(steps * kWord);
    fill(x.as<std::uint32_t>(), [](std::uint64_t i) { return word(i); });
    from_.write(x.bytes());
  }
  PipelineJob job(const Kernel& kernel, const Terms& terms) override {
    return PipelineJob(kernel, steps())
        .input(from_.source(terms), kWord)
        .output(to_.sink(steps() * kWord, terms), kWord)
        .count()
        .range([cut = terms.cut](std::uint64_t steps) { return cut.each(steps); });
  }
  void prepare() override {
    to_.empty();
    from_.prepare(cache_);
  }
  Result<void> check(std::span<const ChunkTimes> chunks) const override {
    return check_steps(chunks, kMostReadsChecked, [this](std::uint64_t i) {
      std::uint32_t there = 0;
      return to_.read(i * kWord, std::as_writable_bytes(std::span(&there, 1))) &&
             there == 3 * word(i) + 1;
    });
  }

 private:
  static std::uint32_t word(std::uint64_t i) noexcept {
    return static_cast<std::uint32_t>(noise(i));
  }
  const Cache cache_;
  DataFile from_, to_;
};

ProgramSource program(const Cut& cut) {
  return program_of("file_scale", kScale, file_scale, cut);
}

}  // namespace

CaseKind file_scale_case() {
  return {"file-scale", "file_scale", 2 * kWord, program, make_workload<FileScale, Cache::hot>,
          true};
}

CaseKind file_scale_cold_case() {
  return {"file-scale-cold",
          "file_scale",
          2 * kWord,
          program,
          make_workload<FileScale, Cache::cold>,
          true};
}

}  // namespace gantry::bench
