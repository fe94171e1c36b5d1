// A page of counters that another process wrote.
#include "core/channel/wire/metrics_page.hpp"
#include "fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gantry;
  static const Metrics metrics = *MetricsMaker::make_own();
  auto* const bytes = reinterpret_cast<std::byte*>(MetricsMaker::page(metrics));
  std::memset(bytes, 0, kMetricsBytes);
  std::memcpy(bytes, data, std::min(size, kMetricsBytes));
  static_cast<void>(metrics.report());
  static_cast<void>(MetricsMaker::handoffs(*MetricsMaker::page(metrics)));
  return 0;
}
