// A rank of the pipelines in run_group_test.cpp: run_rank RUNS SALT. Joins the group that
// `gantry run` made it a rank of, sums tensors RUNS times (0: for ever), and compares each element
// of each sum. Says "joining", "joined", and "runs" when it has run once; in the end "rank R of N".
#include <charconv>
#include <cstdio>
#include <gantry/collectives.hpp>
#include <gantry/runtime.hpp>
#include <string_view>
#include <vector>

namespace {

using namespace gantry;

constexpr std::size_t kElements = 20'011;
constexpr int kWrongSum = 9;

unsigned number(std::string_view text) {
  unsigned value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void say(const char* text) {
  std::fprintf(stderr, "%s\n", text);
}

int fail(const Error& error) {
  std::fprintf(stderr, "gantry: %s\n", to_string(error).c_str());
  return 1;
}

// Whole, and small enough to be summed without rounding.
float element(unsigned rank, std::size_t at, unsigned salt) {
  return static_cast<float>((rank + 1) * salt + at % 101);
}

float sum_of(unsigned ranks, std::size_t at, unsigned salt) {
  float sum = 0;
  for (unsigned rank = 0; rank < ranks; ++rank) sum += element(rank, at, salt);
  return sum;
}

int sum(Group& group, unsigned runs, unsigned salt) {
  std::vector<float> values(kElements);
  const CollectiveTensor tensor{reinterpret_cast<std::byte*>(values.data()),
                                static_cast<std::int64_t>(values.size())};
  auto all_reduce = Collective::prepare(group, {CollectiveKind::all_reduce, tensor});
  if (!all_reduce) return fail(all_reduce.error());
  for (unsigned run = 0; runs == 0 || run < runs; ++run) {
    for (std::size_t at = 0; at < kElements; ++at)
      values[at] = element(group.rank(), at, salt + run % 3);
    if (const auto ran = all_reduce->run(); !ran) return fail(ran.error());
    for (std::size_t at = 0; at < kElements; ++at)
      if (values[at] != sum_of(group.ranks(), at, salt + run % 3)) return kWrongSum;
    if (run == 0) say("runs");
  }
  std::fprintf(stderr, "rank %u of %u in %s\n", group.rank(), group.ranks(), group.name().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return say("run_rank: wrong usage"), 2;
  auto runtime = Runtime::create();
  if (!runtime) return fail(runtime.error());
  say("joining");
  auto group = Group::join(runtime->default_engine());
  if (!group) return fail(group.error());
  say("joined");
  return sum(*group, number(argv[1]), number(argv[2]));
}
