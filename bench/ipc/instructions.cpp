#include "instructions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../peers/list.hpp"
#include "../support/process/callgrind.hpp"
#include "../support/run/rounds.hpp"
#include "../support/system/numbers.hpp"
#include "../support/trips/run_case.hpp"
#include "cases.hpp"
#include "subjects.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::bench {
namespace {

constexpr const char* kFunction = "gantry_bench_counted_send";
constexpr std::uint64_t kFewTrips = 3;          // what is done once only is in these, too
constexpr Bytes kMostBytes = Bytes{512} << 20;  // of all trips that count
constexpr Bytes kMostTrips = 100;

/// A group of one subject makes some trips.
Result<void> make_trips(const SubjectKind& kind, Case what, std::uint64_t trips,
                        int interrupt_descriptor) {
  const auto scratch = ScratchDirectory::create();
  if (!scratch) return Unexpected(scratch.error());
  what.directory = scratch->path();
  const auto cpus = pick_cpus();
  if (!cpus) return Unexpected(cpus.error());
  auto group = start_group({&kind, 1}, what, *cpus, interrupt_descriptor);
  if (!group) return Unexpected(group.error());
  const auto ran = group->run(0, {0, trips});
  group->dismiss();
  return ran ? Result<void>{} : Unexpected(ran.error());
}

/// Instructions of so many trips. What another program sends with is started under callgrind; for
/// the rest this one is, with all that it forks, and only one of those calls send().
class Counter {
 public:
  Counter(const std::string& folder, int interrupt_descriptor)
      : folder_(folder), interrupt_descriptor_(interrupt_descriptor) {}

  Result<double> count(const SubjectKind& kind, const Case& what) const {
    const std::uint64_t more = std::clamp(kMostBytes / what.bytes, Bytes{3}, kMostTrips);
    auto few = count(kind, what, kFewTrips);
    if (!few) return few;
    auto many = count(kind, what, kFewTrips + more);
    if (!many) return many;
    return (*many - *few) / static_cast<double>(more);
  }

 private:
  Result<double> count(const SubjectKind& kind, const Case& what, std::uint64_t trips) const {
    if (!kind.is_peer)
      return count_own(kFunction, folder_,
                       {std::string(kCounted), kind.name, std::to_string(trips), what.name,
                        std::to_string(what.bytes), std::to_string(what.readers)},
                       interrupt_descriptor_);
    if (auto made = make_trips(kind, what, trips, interrupt_descriptor_); !made)
      return Unexpected(made.error());
    return take_count(folder_);
  }

  const std::string& folder_;
  int interrupt_descriptor_;
};

std::vector<SubjectKind> countable(const Settings& settings, Report& report,
                                   const std::string& folder) {
  auto kinds = own_subjects(false);
  const auto wants = [&](std::string_view subject) { return settings.wants(subject); };
  std::erase_if(kinds, [&](const SubjectKind& kind) {
    return !wants(kind.name) || kind.name.starts_with("limit/");
  });
  if (settings.wants_peers())
    for (SubjectKind& peer : peer_subjects(report, wants, callgrind_words(kFunction, folder)))
      kinds.push_back(std::move(peer));
  return kinds;
}

}  // namespace

std::string instructions_name(std::string_view of) {
  return fmt::format("{}/{}", kInstructions, of);
}

Result<void> count_instructions(const Settings& settings, Report& report,
                                int interrupt_descriptor) {
  const auto scratch = ScratchDirectory::create();
  if (!scratch) return Unexpected(scratch.error());
  const auto kinds = countable(settings, report, scratch->path());
  const Counter counter(scratch->path(), interrupt_descriptor);
  auto cases = cases_of(settings);
  std::erase_if(
      cases, [](const Case& what) { return what.in_flight > 1 || !what.reads || what.computes; });
  cli::Progress progress("bench " + report.bench, kinds.size() * cases.size());
  for (const Case& what : cases) {
    for (const SubjectKind& kind : kinds) {
      if (!kind.takes(what)) continue;
      const std::string name = instructions_name(what.name);
      progress.step(name);
      if (auto reported = report_once(report, name, kind.name, what.bytes, kInstructions,
                                      counter.count(kind, what));
          !reported)
        return reported;
    }
  }
  return {};
}

int run_counted(std::span<char* const> arguments) {
  if (arguments.size() != 5) return 2;
  constexpr int kNoInterrupt = -1;
  const std::string_view subject = arguments[0];
  const auto number_at = [&](std::size_t i) {
    return number_of<std::uint64_t>(arguments[i]).value_or(0);
  };
  for (const SubjectKind& kind : own_subjects(true)) {
    if (kind.name != subject) continue;
    Case what = case_named(arguments[2], number_at(3));
    what.readers = static_cast<unsigned>(number_at(4));
    const auto made = make_trips(kind, std::move(what), number_at(1), kNoInterrupt);
    if (!made) std::fputs((to_string(made.error()) + "\n").c_str(), stderr);
    return made ? 0 : 1;
  }
  return 2;
}

}  // namespace gantry::bench
