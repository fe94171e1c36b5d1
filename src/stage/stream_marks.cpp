#include <fcntl.h>

#include "stage/stage_link.hpp"

namespace gantry {
namespace {

constexpr int kBehindStandardStreams = 3;

}  // namespace

// The end itself takes the launcher's descriptor, so this maps the page once more.
StreamMarks::StreamMarks(const StageEndpoint& end) {
  for (const auto& link : end.links) {
    const int copy = ::fcntl(link.metrics_descriptor, F_DUPFD_CLOEXEC, kBehindStandardStreams);
    if (copy < 0) continue;
    if (auto page = Metrics::adopt(copy, true)) pages_.push_back(std::move(*page));
  }
}

void StreamMarks::ended() noexcept {
  for (const Metrics& page : pages_) page.meter()->ended();
}

void StreamMarks::left() noexcept {
  if (!fork_guard_.is_this()) return;
  for (const Metrics& page : pages_) page.meter()->left();
}

void StreamMarks::broken() noexcept {
  for (const Metrics& page : pages_) page.meter()->broken();
}

}  // namespace gantry
