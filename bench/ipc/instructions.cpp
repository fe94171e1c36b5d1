#include "instructions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "../peers/list.hpp"
#include "../support/process/callgrind.hpp"
#include "../support/report/progress.hpp"
#include "../support/trips/run_case.hpp"
#include "cases.hpp"
#include "subjects.hpp"

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
    if (auto made = make(kind, what, trips); !made) return Unexpected(made.error());
    const auto count = take_count(folder_);
    if (!count) return Unexpected({Code::unsupported, "callgrind counted nothing", ""});
    return *count;
  }

  Result<void> make(const SubjectKind& kind, const Case& what, std::uint64_t trips) const {
    if (kind.is_peer) return make_trips(kind, what, trips, interrupt_descriptor_);
    auto words = callgrind_words(kFunction, folder_);
    words.insert(words.end(),
                 {own_path(), std::string(kCounted), kind.name, fmt::format("{}", trips), what.name,
                  fmt::format("{}", what.bytes), fmt::format("{}", what.readers)});
    const auto status = run_to_end(std::move(words), interrupt_descriptor_);
    if (!status) return Unexpected(status.error());
    if (*status == 0) return {};
    return Unexpected({Code::system, fmt::format("callgrind: exit status {}", *status), ""});
  }

  const std::string& folder_;
  int interrupt_descriptor_;
};

std::uint64_t number_of(const char* text) {
  std::uint64_t number = 0;
  std::from_chars(text, text + std::strlen(text), number);
  return number;
}

std::vector<SubjectKind> countable(const Settings& settings, Report& report,
                                   const std::string& folder) {
  auto kinds = own_subjects(false);
  if (settings.wants_peers())
    for (SubjectKind& peer : peer_subjects(report.skipped, callgrind_words(kFunction, folder)))
      kinds.push_back(std::move(peer));
  std::erase_if(kinds, [&](const SubjectKind& kind) {
    return !settings.wants(kind.name) || kind.name.starts_with("limit/");
  });
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
  Progress progress(stderr, "bench ipc", kinds.size() * cases.size());
  for (const Case& what : cases) {
    for (const SubjectKind& kind : kinds) {
      if (!kind.takes(what)) continue;
      const std::string name = instructions_name(what.name);
      progress.step(name);
      auto counted = counter.count(kind, what);
      if (counted) {
        report.rows.push_back(
            {name, kind.name, what.bytes, kInstructions, "1", summarize({&*counted, 1})});
      } else if (counted.error().code == Code::interrupted) {
        return Unexpected(counted.error());
      } else {
        report.skipped.push_back(
            {fmt::format("{} in {}", kind.name, name), to_string(counted.error())});
      }
    }
  }
  return {};
}

int run_counted(std::span<char* const> arguments) {
  if (arguments.size() != 5) return 2;
  constexpr int kNoInterrupt = -1;
  const std::string_view subject = arguments[0];
  const Bytes bytes = number_of(arguments[3]);
  for (const SubjectKind& kind : own_subjects(true)) {
    if (kind.name != subject) continue;
    Case what = case_named(arguments[2], bytes);
    what.readers = static_cast<unsigned>(number_of(arguments[4]));
    const auto made = make_trips(kind, std::move(what), number_of(arguments[1]), kNoInterrupt);
    if (!made) std::fputs((to_string(made.error()) + "\n").c_str(), stderr);
    return made ? 0 : 1;
  }
  return 2;
}

}  // namespace gantry::bench
