#include "workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace gantry::bench {
namespace {

tl::unexpected<Error> wrong(const std::string& where) {
  return tl::unexpected<Error>(
      {Code::peer_misbehaved, fmt::format("wrong result: {} is not what a plain loop gives", where),
       "this is a defect: say so, with the words of this call"});
}

}  // namespace

Array::Array(Bytes bytes) : bytes_(bytes), pages_(whole_pages(bytes)) {}

PipelineSource Workload::source(const Array& array, const Terms& terms) {
  return terms.is_registered ? PipelineSource::registered(array.bytes())
                             : PipelineSource::memory(array.bytes());
}

PipelineSink Workload::sink(const Array& array, const Terms& terms) {
  return terms.is_registered ? PipelineSink::registered(array.bytes())
                             : PipelineSink::memory(array.bytes());
}

Result<void> Workload::check_steps(std::span<const ChunkTimes> chunks, std::uint64_t most,
                                   const std::function<bool(std::uint64_t)>& is_right) const {
  const std::uint64_t apart = 1 + (steps_ - 1) / most;
  for (std::uint64_t i = 0; i < steps_; i += apart) {
    const std::uint64_t step = std::min(steps_ - 1, i + noise(i) % apart);
    if (!is_right(step)) return wrong(fmt::format("step {} of {}", step, steps_));
  }
  for (const ChunkTimes& times : chunks)
    for (const std::uint64_t step : {times.chunk.first, times.chunk.first + times.chunk.steps - 1})
      if (!is_right(step))
        return wrong(fmt::format("step {}, at an end of chunk {},", step, times.chunk.index));
  return {};
}

void Reduction::expect(std::vector<std::uint64_t> totals) {
  totals_.assign(totals.size(), 0);
  expected_ = std::move(totals);
}

Result<void> Reduction::check(std::span<const ChunkTimes>) const {
  const auto [found, meant] = std::ranges::mismatch(totals_, expected_);
  if (found == totals_.end()) return {};
  return wrong(fmt::format("total {}, {} instead of {},", found - totals_.begin(), *found, *meant));
}

void share_out(std::uint64_t count, const std::function<void(std::uint64_t, std::uint64_t)>& part) {
  constexpr std::uint64_t kWorthAThread = 1 << 16;
  const std::uint64_t parts = std::clamp<std::uint64_t>(
      count / kWorthAThread, 1, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::jthread> threads;
  for (std::uint64_t i = 1; i < parts; ++i)
    threads.emplace_back(
        [&, i] { part(count / parts * i, i + 1 == parts ? count : count / parts * (i + 1)); });
  part(0, parts == 1 ? count : count / parts);
}

void spoil(const Array& array) {
  share_out(array.bytes().size(), [&](std::uint64_t first, std::uint64_t last) {
    std::memset(array.bytes().data() + first, 0x7f, last - first);
  });
}

}  // namespace gantry::bench
