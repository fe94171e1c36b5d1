#include "rank_process.hpp"

#include <fmt/format.h>

#include <fstream>
#include <gantry/product.hpp>
#include <map>
#include <optional>

#include "../support/report/series.hpp"
#include "../support/system/cpus.hpp"
#include "rank_start.hpp"
#include "values.hpp"

namespace gantry::bench {
namespace {

constexpr std::chrono::seconds kPatience{60};  // of a piece of work, and of joining

/// A rank, from the inside.
class RankBody {
 public:
  RankBody(unsigned rank, std::span<const Work> work, Group group,
           std::shared_ptr<GemmLibrary> gemm)
      : rank_(rank), work_(work), group_(std::move(group)), gemm_(std::move(gemm)) {}

  /// Command: the number of the work, and how often. The times of one time are one answer.
  Result<Answer> obey(const Command& command) {
    const Work& work = work_[command.warmups];
    return std::holds_alternative<PlanWork>(work)
               ? run_plan(std::get<PlanWork>(work).plan, command.warmups)
               : measure(std::get<CostsWork>(work));
  }

 private:
  struct Prepared {
    std::size_t work = 0;
    PlanBuffers buffers;
    PlanExecutor executor;
  };

  Result<Answer> run_plan(const Plan& plan, std::size_t number) {
    if (!prepared_ || prepared_->work != number)
      if (auto made = prepare(plan, number); !made) return Unexpected(made.error());
    const Wanted* wanted = nullptr;
    if (auto found = wanted_of(plan); found)
      wanted = *found;
    else
      return Unexpected(found.error());
    store_given(plan, prepared_->buffers, rank_);
    // So that all begin at once.
    if (auto met = meeting_.wait(group_); !met) return Unexpected(met.error());
    const auto cpu = process_cpu_time();
    const auto run = prepared_->executor.run(Deadline::after(kPatience));
    if (!run) return Unexpected(run.error());
    Answer answer;
    answer.kind = Answer::Kind::measured;
    answer.p50_ns = Stopwatch::ns(run->elapsed);
    answer.cpu_ns = Stopwatch::ns(process_cpu_time() - cpu);
    // Nobody compares, and takes a CPU, while others are at it: nor do the ranks of Open MPI.
    if (auto met = meeting_.wait(group_); !met) return Unexpected(met.error());
    if (auto right = wanted->compare(plan, prepared_->buffers); !right)
      return Unexpected(right.error());
    return answer;
  }

  Result<void> prepare(const Plan& plan, std::size_t number) {
    prepared_.reset();
    auto buffers = PlanBuffers::make(plan, rank_);
    if (!buffers) return Unexpected(buffers.error());
    auto executor = PlanExecutor::prepare(group_, plan, buffers->tensors, {.gemm = gemm_},
                                          Deadline::after(kPatience));
    if (!executor) return Unexpected(executor.error());
    prepared_.emplace(Prepared{number, std::move(*buffers), std::move(*executor)});
    return {};
  }

  /// The same for all plans of one operator.
  Result<const Wanted*> wanted_of(const Plan& plan) {
    Plan key{.ranks = plan.ranks, .lanes = 1};
    key.tensors = plan.tensors;
    key.tensors.resize(std::min<std::size_t>(key.tensors.size(), kOwnTensors));
    key.wanted = plan.wanted;
    const auto [at, is_new] = wanted_.try_emplace(to_text(key));
    if (is_new) {
      auto made = Wanted::of(plan, rank_, *gemm_);
      if (!made) return Unexpected(made.error());
      at->second = std::move(*made);
    }
    return &at->second;
  }

  Result<Answer> measure(const CostsWork& work) {
    const auto costs = measure_costs(group_, work.op, gemm_, Deadline::after(kPatience));
    if (!costs) return Unexpected(costs.error());
    ShardedProductOptions options;
    options.costs = *costs;
    options.gemm = gemm_;
    const auto product =
        ShardedProduct::prepare(group_, work.op, options, Deadline::after(kPatience));
    if (!product) return Unexpected(product.error());
    const Choice& choice = product->choice();
    if (rank_ == 0 && !(std::ofstream(work.costs_file) << to_text(*costs)).flush())
      return Unexpected(system_error(work.costs_file));
    std::string text = to_string(choice.schedule) + "\n" + choice.decided;
    for (const MeasuredSchedule& one : choice.measured)
      text += fmt::format("; {} {:.3g} ms", to_string(one.schedule), one.seconds * 1e3);
    text += "\n";
    if (rank_ == 0 && !(std::ofstream(work.choice_file) << text).flush())
      return Unexpected(system_error(work.choice_file));
    Answer answer;
    answer.kind = Answer::Kind::measured;
    return answer;
  }

  static constexpr std::size_t kOwnTensors = 3;  // a, b and c; scratch differs by schedule

  const unsigned rank_;
  const std::span<const Work> work_;
  Group group_;
  std::shared_ptr<GemmLibrary> gemm_;
  std::optional<Prepared> prepared_;
  RankMeeting meeting_;
  std::map<std::string, Wanted> wanted_;
};

Result<ObeyRank> open_rank(const RankNetwork& network, unsigned rank, unsigned ranks,
                           const std::string& token, std::span<const Work> work) {
  if (auto entered = network.enter(rank); !entered) return Unexpected(entered.error());
  GroupOptions options;
  options.rank = rank;
  options.ranks = ranks;
  options.name = "bench-overlap";
  options.token = token;
  options.join_timeout = kPatience;
  for (unsigned peer = 0; peer < ranks; ++peer) options.addresses.push_back(network.endpoint(peer));
  auto group = Group::join(options, nullptr);
  if (!group) return Unexpected(group.error());
  auto gemm = open_gemm();
  if (!gemm) return Unexpected(gemm.error());
  const auto body = std::make_shared<RankBody>(rank, work, std::move(*group), std::move(*gemm));
  return ObeyRank([body](const Command& command) { return body->obey(command); });
}

}  // namespace

Result<Ranks> Ranks::start(const RankNetwork& network, unsigned ranks, const std::string& token,
                           std::span<const Work> work, int interrupt_descriptor) {
  Ranks made(interrupt_descriptor);
  made.work_ = work;
  auto children = start_ranks(ranks, RankCpus::all, [&](unsigned rank) {
    return open_rank(network, rank, ranks, token, work);
  });
  if (!children) return Unexpected(children.error());
  made.children_ = std::move(*children);
  const auto links = made.links();
  for (unsigned rank = 0; rank < ranks; ++rank)
    if (auto ready = answer_of_rank(links, rank, interrupt_descriptor); !ready)
      return Unexpected(ready.error());
  return made;
}

std::vector<Link*> Ranks::links() {
  std::vector<Link*> links;
  for (Child& child : children_) links.push_back(&child.link());
  return links;
}

Result<std::vector<RankTimes>> Ranks::run(std::size_t work, unsigned times) {
  std::vector<RankTimes> taken;
  for (unsigned i = 0; i < times; ++i) {
    const auto once =
        ask_ranks(links(), Command{.warmups = work, .trips = 1}, interrupt_descriptor_);
    if (!once) return Unexpected(once.error());
    taken.push_back(*once);
  }
  return taken;
}

}  // namespace gantry::bench
