#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/base/os/memfd.hpp"
#include "core/channel/status/time_scale.hpp"
#include "core/channel/wire/metrics_page.hpp"
#include "core/channel/wire/protocol.hpp"

namespace gantry {
namespace {

// A Meter is the page as its writer sees it: the class has no members of its own.
MetricsPage& page_of(Meter* meter) {
  return *reinterpret_cast<MetricsPage*>(meter);
}

// The page is another process's and may hold anything: what no integer can hold becomes 0.
std::uint64_t whole(double value) noexcept {
  constexpr double kLimit = 18446744073709551616.0;  // 2^64
  return value >= 0 && value < kLimit ? static_cast<std::uint64_t>(value) : 0;
}

const ClockPair kAtLoad = ClockPair::now();

}  // namespace

double lasting_ns_per_tick() noexcept {
  static const double scale = ns_per_tick(kAtLoad);
  return scale;
}

Result<Metrics> MetricsMaker::map(Fd memory, bool writable) {
  void* at = ::mmap(nullptr, kMetricsBytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                    MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) return fail_errno("mapping a page of counters");
  Metrics metrics;
  metrics.meter_ = static_cast<Meter*>(at);
  metrics.descriptor_ = memory.release();
  return metrics;
}

Result<Metrics> MetricsMaker::make(bool for_others) {
  GANTRY_ASSIGN(Fd memory, make_memfd("gantry-metrics", kMetricsBytes));
  const int descriptor = memory.get();
  GANTRY_ASSIGN(Metrics metrics, map(std::move(memory), true));
  auto* page = new (metrics.meter_) MetricsPage{};
  page->start = ClockPair::now();
  page->magic = MetricsPage::kMagic;
  const int seals = for_others ? kSizeSeals : kSizeSeals | F_SEAL_FUTURE_WRITE;
  GANTRY_TRY(seal(descriptor, seals));
  return metrics;
}

Result<Metrics> MetricsMaker::make_own() {
  return make(false);
}

Result<Metrics> MetricsMaker::make_for_end(int descriptor) {
  if (descriptor < 0) return make_own();
  const auto refuse = [descriptor](std::string_view why) {
    return fail(Code::invalid_argument, fmt::format("metrics_descriptor {}: {}", descriptor, why),
                "give the descriptor of a page that Metrics::create() made");
  };
  if (::fcntl(descriptor, F_GETFD) < 0) return refuse("it is not open");
  auto given = Metrics::adopt(descriptor, true);
  // The caller's mistake, and no other process's.
  if (!given && !is_own_trouble(given.error().code)) return refuse("it is no page of counters");
  return given;
}

Result<Metrics> Metrics::create() {
  return guarded([&] { return MetricsMaker::make(true); });
}

Result<Metrics> Metrics::adopt(int descriptor, bool writable) {
  return guarded([&]() -> Result<Metrics> {
    Fd memory(descriptor);
    GANTRY_ASSIGN(const Bytes size, check_sealed(memory.get(), F_SEAL_SHRINK));
    if (size != kMetricsBytes) return wrong_size(kMetricsBytes, size);
    // Inherited descriptors lack the flag; a stage's own children must not have them.
    ::fcntl(memory.get(), F_SETFD, FD_CLOEXEC);
    GANTRY_ASSIGN(Metrics metrics, MetricsMaker::map(std::move(memory), writable));
    if (page_of(metrics.meter_).magic != MetricsPage::kMagic)
      return fail(Code::invalid_argument, "the metrics descriptor is no page of counters");
    return metrics;
  });
}

Metrics::Metrics() noexcept = default;
Metrics::Metrics(Metrics&& other) noexcept {
  *this = std::move(other);
}
Metrics& Metrics::operator=(Metrics&& other) noexcept {
  std::swap(meter_, other.meter_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}
Metrics::~Metrics() {
  if (meter_ != nullptr) ::munmap(meter_, kMetricsBytes);
  MetricsMaker::close_descriptor(*this);
}

void MetricsMaker::close_descriptor(Metrics& metrics) noexcept {
  if (metrics.descriptor_ >= 0) ::close(std::exchange(metrics.descriptor_, -1));
}

MetricsReport MetricsMaker::report(const MetricsPage& page, double ns_per_tick) {
  MetricsReport report;
  const auto ns = [ns_per_tick](double ticks) { return whole(ticks * ns_per_tick); };
  report.opened = page.opened.get() != 0;
  report.connected = page.connected.get() != 0;
  report.ended = page.connected.get() == MetricsPage::kEnded;
  report.broken = page.connected.get() == MetricsPage::kBroken;
  report.left_ns = page.left_ns.get();
  report.messages = page.messages.get();
  report.bytes = page.bytes.get();
  for (std::size_t i = 0; i < kCopyEngines; ++i) {
    report.copies[i] = page.copies[i].get();
    report.copied_bytes[i] = page.copied_bytes[i].get();
  }
  report.copy_ns = ns(static_cast<double>(page.copy_ticks.get()));
  report.cpu_ns = page.cpu_ns.get();
  report.wait_ns = ns(static_cast<double>(page.waits.total(read_ticks())));
  report.handoff_p50_ns = ns(page.handoff_times.quantile(0.50));
  report.handoff_p99_ns = ns(page.handoff_times.quantile(0.99));
  report.handoff_p999_ns = ns(page.handoff_times.quantile(0.999));
  report.handoff_total_ns = ns(static_cast<double>(page.handoff_ticks.get()));
  const std::uint64_t last = page.last_ticks.get();
  const std::uint64_t now = read_ticks();
  if (last != 0)
    report.idle_ns = std::max<std::uint64_t>(ns(static_cast<double>(now - std::min(now, last))), 1);
  return report;
}

MetricsMaker::Handoffs MetricsMaker::handoffs(const MetricsPage& page) {
  constexpr auto& kBounds = ConsumerStatus::kHandoffBoundsNs;
  const double scale = lasting_ns_per_tick();
  Handoffs counts{};
  std::size_t at = 0;
  for (unsigned bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    const double ns = Histogram::middle(bucket) * scale;
    while (at < kBounds.size() && ns > static_cast<double>(kBounds[at])) ++at;
    const std::uint64_t more = page.handoff_times.count(bucket);
    counts[at] += std::min(more, ~std::uint64_t{0} - counts[at]);  // of nonsense, the most
  }
  return counts;
}

MetricsReport Metrics::report() const {
  if (meter_ == nullptr) return {};
  const MetricsPage& page = page_of(meter_);
  const ClockPair start = page.start;  // our copy: nobody moves it while we measure from it
  return MetricsMaker::report(page, ns_per_tick(start));
}

std::uint64_t Meter::ticks() noexcept {
  return read_ticks();
}
void Meter::opened() noexcept {
  page_of(this).opened.set(1);
}
void Meter::connected() noexcept {
  page_of(this).connected.set(MetricsPage::kConnected);
}
void Meter::ended() noexcept {
  Counter& connected = page_of(this).connected;
  if (connected.get() <= MetricsPage::kConnected) connected.set(MetricsPage::kEnded);
}
void Meter::broken() noexcept {
  Counter& connected = page_of(this).connected;
  if (connected.get() <= MetricsPage::kConnected) connected.set(MetricsPage::kBroken);
}
void Meter::left() noexcept {
  MetricsPage& page = page_of(this);
  if (page.connected.get() <= MetricsPage::kConnected) page.left_ns.set(monotonic_ns());
}

void Meter::message(Bytes bytes) noexcept {
  page_of(this).message(bytes);
}
void Meter::copy(CopyEngine engine, Bytes bytes, std::uint64_t ticks) noexcept {
  page_of(this).copy(engine, bytes, ticks);
}
void Meter::handoff(std::uint64_t ticks, std::uint64_t weight) noexcept {
  page_of(this).handoff(ticks, weight);
}
void Meter::cpu(std::uint64_t ns) noexcept {
  page_of(this).cpu_ns.add(ns);
}

void CpuCharge::start(Meter& meter, unsigned weight) noexcept {
  meter_ = &meter;
  weight_ = weight;
  started_ns_ = thread_cpu_ns();
}

void CpuCharge::stop() noexcept {
  meter_->cpu((thread_cpu_ns() - started_ns_) * weight_);
}

}  // namespace gantry
