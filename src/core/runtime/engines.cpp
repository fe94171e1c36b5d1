#include "core/runtime/engines.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/os/system_memory.hpp"
#include "core/base/result.hpp"
#include "core/calibration/calibration.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "core/engine/policy/policy.hpp"
#include "core/engine/policy/policy_engine.hpp"
#include "core/runtime/components.hpp"
#include "core/runtime/cpu_quota.hpp"
#include "core/runtime/machine_key.hpp"

namespace gantry {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr const char* kEngineVariable = "GANTRY_ENGINE";
constexpr const char* kCalibrateVariable = "GANTRY_CALIBRATE";
constexpr std::string_view kRequire = "require:";

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

struct Wish {
  std::string name;  // empty: none
  bool required = false;
  std::string by;  // who asks for it, for the message
};

Wish wish_of(const RuntimeOptions& options) {
  if (!options.engine.empty()) return {options.engine, options.require_engine, {}};
  std::string_view text = variable(kEngineVariable);
  const bool required = text.starts_with(kRequire);
  if (required) text.remove_prefix(kRequire.size());
  return {std::string(text), required || options.require_engine,
          fmt::format("{}: ", kEngineVariable)};
}

// A calibration that is kept must have figures of every engine that needs no device.
Result<void> check_whole(const Calibration& calibration) {
  for (const std::string_view name : {"inline", "thread"})
    if (std::ranges::find(calibration.engines, name, &EngineCosts::engine) ==
        calibration.engines.end())
      return fail(Code::unsupported,
                  fmt::format("a calibration without the {} engine is not kept", name),
                  "see gantry doctor for what keeps that engine from working");
  return {};
}

double cpus_within_quota() {
  const double quota = cpu_quota();
  const double allowed = last_level_cache().sharers;
  return quota > 0 ? std::min(quota, allowed) : allowed;
}

}  // namespace

Engines::Engines() : kept_(std::make_shared<Kept>(machine_key())) {}

Result<std::shared_ptr<Engines>> Engines::create(const RuntimeOptions& options) {
  std::shared_ptr<Engines> engines(new Engines());
  GANTRY_TRY(engines->make_auto());
  GANTRY_TRY(engines->choose(options));
  return engines;
}

Result<void> Engines::make_auto() {
  const LastLevelCache cache = last_level_cache();
  auto found = kept_->store.load();
  if (found.calibration)
    if (const auto whole = check_whole(*found.calibration); !whole)
      found = {std::nullopt, to_string(whole.error())};
  kept_->kept = found.calibration.has_value();
  kept_->note = std::move(found.note);
  const Calibration calibration =
      found.calibration.value_or(default_calibration(cache.bytes, cache.sharers));
  GANTRY_ASSIGN(auto first, make_inline_engine({.streaming_from = calibration.streaming_from}));
  engines_ = {std::move(first)};
  makers_ = engine_makers();
  for (const EngineMaker& maker : makers_) {
    lazy_.push_back(std::make_shared<LazyEngine>(
        maker.facts, [make = maker.make, calibration] { return make(calibration); }));
    if (maker.likely()) engines_.push_back(lazy_.back());
  }
  PolicyOptions options{cpus_within_quota(), {}};
  if (variable(kCalibrateVariable) != "off")
    options.calibrate = [kept = kept_, engines = engines_] { return at_first_use(*kept, engines); };
  GANTRY_ASSIGN(auto_, make_auto_engine(engines_, calibration, std::move(options)));
  return {};
}

Result<void> Engines::choose(const RuntimeOptions& options) {
  const Wish wish = wish_of(options);
  chosen_ = auto_;
  if (wish.name.empty() && !wish.required) return {};
  if (wish.name.empty())
    return fail(Code::invalid_argument,
                fmt::format("{}an engine is required, and none is named", wish.by),
                fmt::format("as in {}={}thread", kEngineVariable, kRequire));
  auto engine = find(wish.name);
  if (engine) {
    chosen_ = std::move(*engine);
    return {};
  }
  Error error = std::move(engine).error();
  error.message = wish.by + error.message;
  if (wish.required || error.code == Code::not_found) return tl::unexpected(std::move(error));
  fallback_ = to_string(error);
  return {};
}

Result<std::shared_ptr<Engine>> Engines::find(std::string_view name) {
  if (name == kAuto) return auto_;
  if (name == engines_.front()->name()) return engines_.front();
  std::vector<std::string_view> names{engines_.front()->name()};
  for (const auto& lazy : lazy_) {
    if (name == lazy->name()) return lazy->get();
    names.push_back(lazy->name());
  }
  names.push_back(kAuto);
  const bool has_dsa = std::ranges::find(names, "dsa") != names.end();
  return fail(Code::not_found, fmt::format("engine '{}': this program has no such engine", name),
              fmt::format("the engines are {}{}", fmt::join(names, ", "),
                          has_dsa ? "" : "; link gantry::device for dsa"));
}

std::vector<EngineStatus> Engines::statuses() {
  std::vector<EngineStatus> all{{"inline", true, "copies in the calling thread", {}}};
  for (std::size_t i = 0; i < lazy_.size(); ++i) {
    const auto engine = lazy_[i]->get();
    const std::string name(lazy_[i]->name());
    if (engine)
      all.push_back({name, true, makers_[i].what(**engine), {}});
    else
      all.push_back({name, false, engine.error().message, engine.error().hint});
  }
  std::string what = fmt::format("passes each move on to the quickest ({} calibration)",
                                 to_string(auto_->policy().calibration().source));
  if (!fallback_.empty()) what += "; stands in for another: " + fallback_;
  all.push_back({std::string(kAuto), true, std::move(what), {}});
  return all;
}

// ---- calibration ---------------------------------------------------------------------------

CalibrationStatus Engines::calibration() const {
  const std::lock_guard lock(kept_->mutex);
  return {auto_->calibration(), kept_->store.path(), kept_->kept, kept_->note};
}

// A result that cannot be kept still serves this process.
Result<Calibration> Engines::measure(Kept& kept, std::span<const std::shared_ptr<Engine>> engines,
                                     const CalibrateOptions& options) {
  const auto ours = kept.store.lock();
  if (!ours && ours.error().code == Code::busy) return tl::unexpected(ours.error());
  const LastLevelCache cache = last_level_cache();
  auto measured = measure_calibration(
      engines,
      {options.quick, cache.bytes, cache.sharers, system_memory().available / 4, options.on_step,
       find_in_components([](const Component& one) { return one.sample_reshape; })});
  if (!measured) return measured;
  measured->machine = machine_key();
  auto saved = ours ? Result<void>() : Result<void>(tl::unexpected(ours.error()));
  if (saved) saved = check_whole(*measured);
  if (saved) saved = kept.store.save(*measured);
  const std::lock_guard lock(kept.mutex);
  kept.kept = saved.has_value();
  kept.note = saved ? std::string() : to_string(saved.error());
  return measured;
}

std::optional<Calibration> Engines::at_first_use(Kept& kept,
                                                 std::span<const std::shared_ptr<Engine>> engines) {
  auto measured = measure(kept, engines, {.quick = true, .on_step = {}});
  if (measured) return std::move(*measured);
  const std::lock_guard lock(kept.mutex);
  kept.note = to_string(measured.error());
  return std::nullopt;
}

Result<CalibrationStatus> Engines::calibrate(const CalibrateOptions& options) {
  std::vector<std::shared_ptr<Engine>> usable{engines_.front()};
  for (const auto& lazy : lazy_)
    if (auto engine = lazy->get()) usable.push_back(std::move(*engine));
  GANTRY_ASSIGN(Calibration measured, measure(*kept_, usable, options));
  auto_->use(std::move(measured));
  return calibration();
}

}  // namespace gantry
