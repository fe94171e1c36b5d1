// engine/shape/exhaustive_test.cpp: all 2^32 floats to every type, with every kind of vectors that
// this CPU has, against the reference. `make exhaustive` runs it; the other tests take samples.
//   usage: shape_exhaustive [PROCESSES]

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "shape/reshape/test_rows.hpp"

namespace gantry::shape {
namespace {

constexpr std::uint32_t kBlock = 1u << 20;  // floats compared at a time
constexpr unsigned kBlocks = 1u << 12;

/// Compares a block of floats; returns how many types and targets differ, and says each first one.
unsigned compare(unsigned block, const std::vector<std::int64_t>& targets) {
  unsigned wrong = 0;
  std::vector<std::uint32_t> codes(kBlock);
  std::iota(codes.begin(), codes.end(), block * kBlock);
  const Raw source = raw_of(codes);
  for (const Element to : kAllElements) {
    const Raw wanted = expected(to, Element::f32, source);
    Raw got(wanted.size());
    for (const std::int64_t target : targets) {
      const char* name = use_target(target);
      convert(to, got.data(), Element::f32, source.data(), kBlock, false);
      if (got == wanted) continue;
      ++wrong;
      std::printf("%s: %s\n", name, difference(to, got, wanted, Element::f32, source).c_str());
    }
  }
  return wrong;
}

/// Every so manieth block, by a process of its own: the choice of vectors is the process's.
unsigned compare_share(unsigned share, unsigned shares) {
  const FloatMode mode;
  const std::vector<std::int64_t> targets = vector_targets();
  unsigned wrong = 0;
  for (unsigned block = share; block < kBlocks; block += shares) {
    wrong += compare(block, targets);
    if (share == 0 && block / shares % (kBlocks / shares / 32) == 0) {
      std::printf("%3u %% of the floats\n", block * 100 / kBlocks);
      std::fflush(stdout);
    }
  }
  return wrong;
}

int run(unsigned shares) {
  for (const std::int64_t target : vector_targets()) std::printf("%s ", use_target(target));
  std::printf("vectors, %zu types, %u processes\n", kElements, shares);
  std::fflush(stdout);
  for (unsigned share = 0; share < shares; ++share)
    if (fork() == 0) {
      const unsigned wrong = compare_share(share, shares);
      std::fflush(stdout);
      _exit(wrong == 0 ? 0 : 1);
    }
  bool failed = false;
  for (unsigned share = 0; share < shares; ++share) {
    int status = -1;
    failed = wait(&status) < 0 || status != 0 || failed;
  }
  std::printf(failed ? "Some differ from the reference.\n" : "All equal the reference.\n");
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace gantry::shape

int main(int count, char** arguments) {
  const int shares = count > 1 ? std::atoi(arguments[1]) : 1;
  return gantry::shape::run(static_cast<unsigned>(std::clamp(shares, 1, 64)));
}
