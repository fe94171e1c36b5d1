#include "environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "../support/program/sizes.hpp"
#include "../support/run/calibration.hpp"
#include "../support/system/interrupt.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kSmallestArena = Bytes{64} << 20;  // more than the caches of one core

constexpr std::array kEngineNames = {kInlineEngine, kThreadEngine, kDsaEngine, kAutoEngine};

Bytes arena_for(Bytes largest) noexcept {
  return std::bit_ceil(std::max(largest, kSmallestArena));
}

}  // namespace

Result<std::unique_ptr<Environment>> Environment::open(Settings settings, Report& report,
                                                       int interrupt_descriptor) {
  std::unique_ptr<Environment> environment(
      new Environment(std::move(settings), report, interrupt_descriptor));
  std::vector<Bytes>& sizes = environment->settings_.common.sizes;
  auto fitting = sizes_that_fit(sizes, report, [](Bytes bytes) {
    // As a number with a point: the power of two above an enormous size has no room.
    return 2 * static_cast<double>(std::max(bytes, kSmallestArena));
  });
  if (!fitting) return Unexpected(fitting.error());
  sizes = *std::move(fitting);
  if (auto opened = environment->open_engines(); !opened) return Unexpected(opened.error());
  const CpuPair cpus = report.cpus.value();
  environment->arena_ = std::make_unique<Arena>(arena_for(environment->settings_.largest()));
  if (auto learnt = environment->learn_streaming_from(); !learnt) return Unexpected(learnt.error());
  environment->reader_ = std::make_unique<Reader>(cpus.responder);
  if (auto pinned = pin(cpus.requester); !pinned) return Unexpected(pinned.error());
  return environment;
}

Result<void> Environment::open_engines() {
  if (auto calibrated = calibrate_if_needed(); !calibrated) return calibrated;
  auto runtime = Runtime::create();
  if (!runtime) return Unexpected(runtime.error());
  runtime_.emplace(std::move(*runtime));
  for (const std::string_view name : kEngineNames) {
    const std::string subject = fmt::format("gantry/{}", name);
    auto engine = runtime_->engine(name);
    if (engine)
      engines_.push_back({name, subject, std::move(*engine)});
    else
      report_.skipped.push_back({subject, to_string(engine.error())});
  }
  if (find(kInlineEngine) != nullptr) return {};
  return Unexpected({Code::unsupported, "engine 'inline': not usable", ""});
}

Result<void> Environment::learn_streaming_from() {
  auto lane = find(kInlineEngine)->engine->open_lane();
  if (!lane) return Unexpected(lane.error());
  const auto streams = [&](Bytes bytes) {
    const Move move = Move::copy({arena_->destination(), bytes}, {arena_->source(), bytes});
    return (*lane)->explain(move, SubmitMode::synchronous).cache == CacheUse::streaming;
  };
  Bytes below = 0;
  streaming_from_ = arena_->bytes();
  if (!streams(streaming_from_)) {
    streaming_from_ = std::numeric_limits<Bytes>::max();
    return {};
  }
  while (streaming_from_ - below > 1) {
    const Bytes middle = below + (streaming_from_ - below) / 2;
    (streams(middle) ? streaming_from_ : below) = middle;
  }
  return {};
}

const NamedEngine* Environment::find(std::string_view name) const noexcept {
  const auto found = std::find_if(engines_.begin(), engines_.end(),
                                  [&](const NamedEngine& one) { return one.name == name; });
  return found == engines_.end() ? nullptr : &*found;
}

Result<void> Environment::check_interrupt() const {
  return bench::check_interrupt(interrupt_descriptor_);
}

}  // namespace gantry::bench
