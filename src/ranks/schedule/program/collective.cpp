#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/base/os/fd.hpp"
#include "core/base/text_lines.hpp"
#include "ranks/schedule/plan.hpp"
#include "ranks/schedule/program/script.hpp"

namespace gantry {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".gcoll";

Result<std::string> read_text(const std::string& path) {
  // O_NONBLOCK: a pipe of that name must not hold us up.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return fail_errno(path);
  struct stat facts{};
  if (::fstat(file.get(), &facts) != 0) return fail_errno(path);
  if (!S_ISREG(facts.st_mode))
    return fail(Code::invalid_argument, fmt::format("{}: it is no file", path));
  std::string text(collective::kLongestProgram + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > collective::kLongestProgram)
    return fail(Code::too_large,
                fmt::format("{}: more than {} bytes", path, collective::kLongestProgram));
  text.resize(size);
  return text;
}

Result<CollectiveProgram> load_file(const std::string& path) {
  GANTRY_ASSIGN(const std::string text, read_text(path));
  auto program = parse_collective(text);
  if (program) return program;
  return prefixed(std::move(program).error(), "{}", path);
}

// Sorted, so that everybody finds them in the same order.
Result<std::vector<std::string>> programs_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == kExtension) paths.push_back(entry->path().string());
  if (error) return fail_errno(folder, error.value());
  std::ranges::sort(paths);
  return paths;
}

Result<std::vector<CollectiveProgram>> builtins() {
  std::vector<CollectiveProgram> all;
  for (const std::string_view text : collective::builtin_programs()) {
    GANTRY_ASSIGN(const CollectiveProgram program, parse_collective(text));
    all.push_back(program);
  }
  return all;
}

/// What of a collective's bytes decides.
enum class Measure : std::uint8_t {
  to_all,  ///< What a rank sends if it sends everything to everybody.
  whole,
};
using Threshold = Bytes CollectiveThresholds::*;
constexpr Threshold kAlways = nullptr;

// What a check has room for (docs/mechanisms/schedule.md), as chunks times the cube of the ranks
// and two. Of what moves its steps in lanes: half of them, which take 512 MiB. Of what is added the
// terms of its sums, which are made twice where pieces differ by an element.
constexpr std::size_t kWhole = 0;
constexpr std::size_t kMoves = kMostStepsInLanes / 2 / 6;
constexpr std::size_t kAdds = kMostTermsMade / 2;

/// A way to do a collective, up to a size. Of each collective the smaller one comes first.
struct Way {
  std::string_view collective;
  std::string_view program;
  Measure measure;
  Threshold up_to;
  std::size_t room;  ///< For chunks, by which the next rank begins before all is there; or kWhole.
  std::string_view reason;
};

constexpr std::string_view kAtOnce = "starts cost as much as bytes: each with each";
constexpr std::string_view kRing =
    "each byte goes over each link once; starts are hidden in chunks";
constexpr std::string_view kOnly = "there is one way";
constexpr Way kWays[] = {
    {"all-gather", "all-gather-at-once", Measure::whole, &CollectiveThresholds::moved_at_once,
     kWhole, kAtOnce},
    {"all-gather", "all-gather-ring", Measure::whole, kAlways, kMoves, kRing},
    {"reduce-scatter", "reduce-scatter-at-once", Measure::whole, &CollectiveThresholds::at_once,
     kWhole, kAtOnce},
    {"reduce-scatter", "reduce-scatter-ring", Measure::whole, kAlways, kAdds, kRing},
    {"all-reduce", "all-reduce-direct", Measure::to_all, &CollectiveThresholds::direct, kWhole,
     "starts cost more than bytes: one step"},
    {"all-reduce", "all-reduce-at-once", Measure::whole, &CollectiveThresholds::at_once, kWhole,
     kAtOnce},
    {"all-reduce", "all-reduce-ring", Measure::whole, kAlways, kAdds, kRing},
    {"all-to-all", "all-to-all", Measure::whole, kAlways, kWhole, kOnly},
    {"all-to-all-counts", "all-to-all-counts", Measure::whole, kAlways, kWhole, kOnly},
    {"broadcast", "broadcast-at-once", Measure::to_all, &CollectiveThresholds::moved_at_once,
     kWhole, "the root's link is not full: one step"},
    {"broadcast", "broadcast-chain", Measure::whole, kAlways, kMoves, kRing},
};

Bytes measured(Measure measure, unsigned ranks, Bytes bytes) noexcept {
  Bytes all = 0;
  if (measure == Measure::whole || ranks <= 1) return bytes;
  const bool overflows = __builtin_mul_overflow(bytes, Bytes{ranks} - 1, &all);
  return overflows ? std::numeric_limits<Bytes>::max() : all;
}

// Of one transfer, before it is cut.
Bytes transfer_of(const Way& way, unsigned ranks, Bytes bytes) noexcept {
  const bool is_whole = way.collective == "broadcast" || way.program == "all-reduce-direct";
  return is_whole ? bytes : bytes / ranks;
}

/// 0: not even one would pass the check.
Bytes most_chunks(const Way& way, unsigned ranks) noexcept {
  const Bytes side = Bytes{ranks} + 2;
  return way.room / (side * side * side);
}

/// Nobody takes part in a plan that cannot be proved.
bool is_provable(const Way& way, unsigned ranks) noexcept {
  return way.room == kWhole || most_chunks(way, ranks) > 0;
}

CollectiveChoice choice_of(const Way& way, unsigned ranks, Bytes bytes,
                           const CollectiveThresholds& thresholds) {
  const Bytes transfer = transfer_of(way, ranks, bytes);
  CollectiveChoice choice{.program = std::string(way.program), .variant = {}, .reason = {}};
  std::string_view limit;
  if (way.room != kWhole) {
    const auto most = static_cast<Bytes>(std::max<std::int64_t>(thresholds.most_chunks, 1));
    const Bytes wanted =
        std::clamp<Bytes>(transfer / std::max<Bytes>(thresholds.chunk, 1), 1, most);
    const Bytes chunks = std::min(wanted, most_chunks(way, ranks));
    if (chunks < wanted) limit = "; more chunks could not be proved";
    choice.chunks = static_cast<std::int64_t>(chunks);
  }
  const Bytes piece = transfer / static_cast<Bytes>(choice.chunks);
  choice.variant = piece <= thresholds.eager ? "eager" : "rendezvous";
  choice.reason = fmt::format(
      "{} bytes in {} ranks: {}; transfers of {} bytes, {} {}{}", bytes, ranks, way.reason, piece,
      piece <= thresholds.eager ? "up to" : "above", thresholds.eager, limit);
  return choice;
}

}  // namespace

const std::string& CollectiveProgram::name() const noexcept {
  return script_->name;
}
const std::string& CollectiveProgram::about() const noexcept {
  return script_->about;
}
const std::vector<std::string>& CollectiveProgram::variants() const noexcept {
  return script_->variants;
}

Result<std::vector<CollectiveProgram>> list_collectives(const std::string& folder) {
  return guarded([&]() -> Result<std::vector<CollectiveProgram>> {
    GANTRY_ASSIGN(std::vector<CollectiveProgram> all, builtins());
    if (folder.empty()) return all;
    GANTRY_ASSIGN(const std::vector<std::string> paths, programs_in(folder));
    for (const std::string& path : paths) {
      GANTRY_ASSIGN(const CollectiveProgram program, load_file(path));
      for (const CollectiveProgram& other : all)
        if (other.name() == program.name())
          return fail(Code::already_exists,
                      fmt::format("{}: there is a collective {} already", path, program.name()),
                      "give it another name");
      all.push_back(program);
    }
    std::ranges::sort(all, {}, &CollectiveProgram::name);
    return all;
  });
}

Result<CollectiveProgram> load_collective(const std::string& what) {
  return guarded([&]() -> Result<CollectiveProgram> {
    if (what.find('/') != std::string::npos || what.ends_with(kExtension)) return load_file(what);
    GANTRY_ASSIGN(const std::vector<CollectiveProgram> all, builtins());
    std::vector<std::string_view> names;
    for (const CollectiveProgram& program : all) {
      if (program.name() == what) return program;
      names.push_back(program.name());
    }
    return fail(Code::not_found, "there is no collective " + quote(what),
                fmt::format("{}; or the path of a file", fmt::join(names, ", ")));
  });
}

// ---- which program ----------------------------------------------------------------------------

Result<CollectiveChoice> pick_collective(std::string_view collective, unsigned ranks, Bytes bytes,
                                         const CollectiveThresholds& thresholds) {
  return guarded([&]() -> Result<CollectiveChoice> {
    if (ranks == 0) return fail(Code::invalid_argument, "a collective of 0 ranks");
    const Way* before = nullptr;
    for (const Way& way : kWays) {
      if (way.collective != collective) continue;
      if (before != nullptr && !is_provable(way, ranks)) {
        Way instead = *before;
        instead.reason = "a ring of so many ranks could not be proved: each with each";
        return choice_of(instead, ranks, bytes, thresholds);
      }
      if (way.up_to == kAlways || measured(way.measure, ranks, bytes) <= thresholds.*way.up_to)
        return choice_of(way, ranks, bytes, thresholds);
      before = &way;
    }
    return fail(Code::not_found, "there is no collective " + quote(collective),
                "all-gather, reduce-scatter, all-reduce, all-to-all, all-to-all-counts, broadcast");
  });
}

}  // namespace gantry
