// Acquiring and releasing blocks that a device knows: every registrar, pattern and subject.

#include <fmt/format.h>

#include "../support/program/sizes.hpp"
#include "settings.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr std::size_t kManyBlocks = 10'000;
constexpr Bytes kManyBytes = Bytes{8} << 10;
constexpr Bytes kRandomBytes = Bytes{4} << 20;
constexpr Bytes kScalingBytes[] = {Bytes{8} << 10, Bytes{1} << 20};
constexpr unsigned kScalingThreads = 4;
// Threads that share a CPU take turns of some ms: a batch has to see several of them.
constexpr std::chrono::milliseconds kThreadsTime{30};
constexpr std::chrono::milliseconds kScalingTime{200};
constexpr Bytes kBesides = Bytes{64} << 20;  // what a process takes besides: a slab, libraries

std::vector<Pattern> patterns(const Settings& settings) {
  std::vector<Pattern> all;
  if (settings.has_pattern(kFixed))
    for (const Bytes bytes : settings.common.sizes)
      all.push_back(
          {Pattern::Kind::fixed, fmt::format("{}/{}", kFixed, format_size(bytes)), bytes, 1});
  if (settings.has_pattern(kMany))
    all.push_back({Pattern::Kind::many, std::string(kMany), kManyBytes, kManyBlocks});
  if (settings.has_pattern(kRandom))
    all.push_back({Pattern::Kind::random, std::string(kRandom), kRandomBytes, 1});
  return all;
}

Contestant contestant(const BlockSubject& subject, const Setup& setup, std::string case_name) {
  const auto steps = static_cast<double>(setup.pattern.steps(setup.threads));
  return {.case_name = std::move(case_name),
          .subject = std::string(subject.name),
          .bytes = setup.pattern.bytes,
          .open = [open = subject.open, setup] { return open(setup); },
          .readings = {{.figure = [steps](double trip_ns) { return trip_ns / steps; }}}};
}

Bytes memory_of(const BlockSubject& subject, const Setup& setup) {
  // Buffers and slabs come in larger steps than blocks do: up to twice as much.
  return kBesides + (subject.keeps_memory ? 2 * setup.pattern.footprint(setup.threads) : 0);
}

Contest block_contest(const Settings& settings, const Setup& setup) {
  const std::string name = case_of(setup.registrar, setup.pattern.name, setup.threads);
  Contest contest{.label = name, .contestants = {}, .rounds = settings.common.rounds};
  if (setup.threads > 1) contest.round_time = kThreadsTime;
  for (const BlockSubject& subject : block_subjects()) {
    contest.contestants.push_back(contestant(subject, setup, name));
    contest.memory_bytes += memory_of(subject, setup);
  }
  return contest;
}

}  // namespace

std::vector<Contest> block_contests(const Settings& settings) {
  std::vector<Contest> contests;
  for (const std::string& registrar : settings.registrars)
    for (const unsigned threads : settings.threads)
      for (const Pattern& pattern : patterns(settings))
        contests.push_back(block_contest(settings, {registrar, pattern, threads, settings.cpus}));
  return contests;
}

std::vector<Contest> scaling_contests(const Settings& settings) {
  std::vector<Contest> contests;
  if (settings.registrars.empty()) return contests;
  for (const Bytes bytes : kScalingBytes) {
    const std::string name = fmt::format("scaling/{}", format_size(bytes));
    Contest contest{.label = name, .contestants = {}, .rounds = settings.common.rounds};
    contest.round_time = kScalingTime;
    const Pattern pattern{Pattern::Kind::fixed, "", bytes, 1};
    for (unsigned threads = 1; threads <= kScalingThreads; ++threads) {
      for (const BlockSubject& subject : block_subjects()) {
        if (subject.name != kPoolEager && subject.name != kMalloc) continue;
        const Setup setup{settings.registrars.front(), pattern, threads, settings.cpus};
        auto entrant = contestant(subject, setup, case_of("scaling", format_size(bytes), threads));
        entrant.readings = {
            {kThroughput, "1/s", [threads](double trip_ns) { return threads * 1e9 / trip_ns; }}};
        contest.contestants.push_back(std::move(entrant));
        contest.memory_bytes += memory_of(subject, setup);
      }
    }
    contests.push_back(std::move(contest));
  }
  return contests;
}

}  // namespace gantry::bench
