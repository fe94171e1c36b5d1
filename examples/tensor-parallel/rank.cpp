#include "rank.hpp"

#include <algorithm>
#include <gantry/runtime.hpp>
#include <limits>

#include "errors.hpp"
#include "matrices.hpp"
#include "reference.hpp"

namespace tensor_parallel {
namespace {

using gantry::Result;
using Clock = std::chrono::steady_clock;

constexpr gantry::Schedule kSerial{.pattern = gantry::SchedulePattern::serial};

double median_ms(std::vector<double> seconds) {
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle * 1e3;
}

/// So that what an earlier run left cannot pass for the next one's.
void spoil(const gantry::MatrixPart& part) {
  for (std::int64_t row = 0; row < part.rows; ++row)
    std::fill_n(row_of(part, row), part.cols, std::numeric_limits<float>::quiet_NaN());
}

void print_plan(const char* layer, const gantry::ShardedProduct& product) {
  std::string text = product.explain();
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3)
    text.replace(at, 1, "\n  ");
  std::printf("%s\n  %s\n", layer, text.c_str());
  for (const gantry::ChoiceRule& rule : gantry::choice_rules())
    if (product.choice().decided == "serial: " + std::string(rule.name))
      std::printf("  (%s)\n", std::string(rule.reason).c_str());
}

}  // namespace

Result<void> Rank::run() {
  if (auto joined = join(); !joined) return joined;
  if (auto prepared = prepare(); !prepared) return prepared;
  if (prints()) print_plans();
  if (auto ran = take_turns(); !ran) return ran;
  if (auto right = check(); !right) return right;
  if (auto met = meet(); !met) return met;  // all ranks have found theirs right
  if (prints()) print_times();
  return {};
}

Result<void> Rank::join() {
  auto runtime = gantry::Runtime::create();
  if (!runtime) return failed(runtime);
  auto gemm = gantry::open_gemm();
  if (!gemm) return failed(gemm);
  gemm_ = std::move(*gemm);

  auto group = gantry::Group::join(options_.group, runtime->default_engine());
  if (!group) return failed(group);
  group_.emplace(std::move(*group));
  return {};
}

Result<void> Rank::prepare() {
  gantry::Plan plan{.ranks = group_->ranks(), .about = "all ranks are here"};
  for (unsigned rank = 0; rank < plan.ranks; ++rank)
    plan.steps.push_back({gantry::PlanVerb::barrier, rank, 0, {}, {}, {}, false, {}});
  auto meeting = gantry::PlanExecutor::prepare(*group_, plan, {});
  if (!meeting) return failed(meeting);
  meeting_.emplace(std::move(*meeting));

  if (auto added = add("serial", kSerial); !added) return added;
  return options_.chooses ? add("chosen", std::nullopt) : Result<void>{};
}

Result<void> Rank::add(const char* name, std::optional<gantry::Schedule> schedule) {
  auto layers = Layers::prepare(*group_, options_, schedule, gemm_);
  if (!layers) return failed(layers);
  subjects_.push_back({name, std::move(*layers)});
  return {};
}

Result<void> Rank::meet() {
  if (auto met = meeting_->run(); !met) return failed(met);
  return {};
}

// From the moment when all ranks are there to the one when all have ended. The first turn of each
// makes its pages and does not count.
Result<void> Rank::take_turns() {
  for (unsigned turn = 0; turn <= options_.turns; ++turn)
    for (Subject& subject : subjects_) {
      spoil(subject.layers.result());
      if (auto met = meet(); !met) return met;
      const auto began = Clock::now();
      if (auto ran = subject.layers.run(); !ran) return ran;
      if (auto met = meet(); !met) return met;
      const std::chrono::duration<double> took = Clock::now() - began;
      if (turn > 0) subject.seconds.push_back(took.count());
    }
  return {};
}

Result<void> Rank::check() {
  const std::int64_t first = share(options_.sides.rows, rank_, group_->ranks());
  for (const Subject& subject : subjects_) {
    auto same = compare(subject.layers.result(), first, options_, *gemm_);
    if (same) continue;
    same.error().message =
        "rank " + std::to_string(rank_) + ", " + subject.name + ": " + same.error().message;
    return same;
  }
  return {};
}

void Rank::print_plans() const {
  const auto [rows, hidden, inner] = options_.sides;
  const gantry::GemmFacts& facts = gemm_->facts();
  std::printf("%u ranks%s%s; X %lld x %lld, inner %lld; %s %s\n", group_->ranks(),
              group_->ranks() > 1 ? ", rank 1: " : "",
              group_->ranks() > 1 ? group_->explain(1).c_str() : "", static_cast<long long>(rows),
              static_cast<long long>(hidden), static_cast<long long>(inner), facts.library.c_str(),
              facts.core.c_str());
  const Layers& layers = subjects_.back().layers;
  print_plan("first layer, by columns", layers.first());
  print_plan("second layer, by rows", layers.second());
  std::fflush(stdout);
}

void Rank::print_times() const {
  for (const Subject& subject : subjects_)
    std::printf("%s  %.2f ms, median of %u\n", subject.name, median_ms(subject.seconds),
                options_.turns);
  std::printf("result  %s at every rank\n", options_.activation == Activation::relu
                                                ? "equal to one rank's, to the bit,"
                                                : "within the bound of roundings of one rank's");
  std::fflush(stdout);
}

}  // namespace tensor_parallel
