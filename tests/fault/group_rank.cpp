// A rank of a group by addresses, as a process: runs a plan again and again, and compares each byte
// of what comes out. group_links starts it.
//   usage: group_rank RANK RUNS STALL_MS HOST:PORT...
// Says "runs" when it has run once, "done" after RUNS, else "failed: " and why, when it has left
// the group and nothing has landed in its memory since the run failed.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "core/engine/inline/inline_engine.hpp"
#include "ranks/schedule/run/test_ranks.hpp"

namespace gantry {
namespace {

constexpr std::int64_t kRows = 16;  // that each rank has in the beginning
constexpr std::int64_t kCols = 1024;

/// Rows go round from rank to rank, until all have them.
Plan round_plan(unsigned ranks) {
  const auto place = [&](unsigned rank, unsigned block) {
    return PlanPlace{rank, 0, {block * kRows, 0, kRows, kCols}};
  };
  Plan plan{.ranks = ranks, .about = "rows go round"};
  plan.tensors = {{"a", kRows * ranks, kCols, test::kPlanType}};
  std::vector<unsigned> came(ranks);
  for (unsigned rank = 0; rank < ranks; ++rank) {
    plan.given.push_back({place(rank, rank), {{"X"}}});
    plan.wanted.push_back({{rank, 0, {0, 0, kRows * ranks, kCols}}, {{"X"}}});
  }
  for (unsigned hop = 0; hop + 1 < ranks; ++hop)
    for (unsigned block = 0; block < ranks; ++block) {
      const unsigned from = (block + hop) % ranks;
      const unsigned to = (from + 1) % ranks;
      PlanStep step{PlanVerb::put, from, 0, place(to, block), place(from, block), {}, false, {}};
      if (hop > 0) step.after = {came[block]};
      came[block] = static_cast<unsigned>(plan.steps.size());
      plan.steps.push_back(step);
    }
  return plan;
}

void say(const std::string& what) {
  fmt::print("{}\n", what);
  std::fflush(stdout);
}

constexpr std::byte kPoison{0xa5};

/// A rank's memory, and whether a run has failed there: it is poisoned as soon as that returns.
struct Memory {
  const PlanBuffers& buffers;
  ByteSpan bytes;
  bool is_poisoned = false;
};

/// The group has been left when this returns.
Result<void> run_in_group(const GroupOptions& options, unsigned runs, const Plan& plan,
                          Memory& memory) {
  auto group = Group::join(options, make_inline_engine().value());
  if (!group) return tl::unexpected(group.error());
  auto executor = PlanExecutor::prepare(*group, plan, memory.buffers.tensors);
  if (!executor) return tl::unexpected(executor.error());
  Plan whole = plan;
  whole.given = plan.wanted;
  test::store_given(whole, memory.buffers, options.rank, 0);
  const std::vector<std::byte> wanted(memory.bytes.begin(), memory.bytes.end());
  test::store_given(plan, memory.buffers, options.rank, -7);
  const std::vector<std::byte> given(memory.bytes.begin(), memory.bytes.end());
  for (unsigned turn = 0; turn < runs; ++turn) {
    std::ranges::copy(given, memory.bytes.begin());
    const auto done = executor->run();
    if (!done) {
      std::ranges::fill(memory.bytes, kPoison);
      memory.is_poisoned = true;
      return tl::unexpected(done.error());
    }
    if (std::memcmp(memory.bytes.data(), wanted.data(), wanted.size()) != 0)
      return tl::unexpected(Error{Code::system, fmt::format("run {}: wrong bytes", turn), ""});
    if (turn == 0) say("runs");
  }
  return {};
}

Result<void> run(const GroupOptions& options, unsigned runs) {
  const Plan plan = round_plan(options.ranks);
  const auto buffers = PlanBuffers::make(plan, options.rank).value();
  const auto size = static_cast<Bytes>(plan.tensors[0].rows * kCols) * sizeof(std::int64_t);
  Memory memory{buffers, ByteSpan(buffers.tensors[0].data, size)};
  auto done = run_in_group(options, runs, plan, memory);
  if (memory.is_poisoned &&
      std::ranges::any_of(memory.bytes, [](std::byte one) { return one != kPoison; }))
    return tl::unexpected(Error{Code::system, "bytes landed when a run had failed", ""});
  return done;
}

int main_with(int argc, char** argv) {
  if (argc < 5) return 2;
  GroupOptions options;
  options.rank = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  options.stall_limit = std::chrono::milliseconds(std::strtoul(argv[3], nullptr, 10));
  options.name = "links";
  options.token = "a token that nobody else knows";
  options.addresses.assign(argv + 4, argv + argc);
  options.ranks = static_cast<unsigned>(options.addresses.size());
  const auto done = run(options, static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)));
  say(done ? "done" : "failed: " + done.error().message);
  return done ? 0 : 1;
}

}  // namespace
}  // namespace gantry

int main(int argc, char** argv) {
  return gantry::main_with(argc, argv);
}
