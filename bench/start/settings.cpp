#include "settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "../support/program/choices.hpp"
#include "../support/program/sizes.hpp"
#include "estimates.hpp"
#include "loaders.hpp"
#include "restore/restorers.hpp"

namespace gantry::bench {
namespace {

bool is_named(const std::vector<std::string>& words, std::string_view name) {
  return words.empty() || std::ranges::any_of(words, [&](const std::string& word) {
           return names_subject(word, name);
         });
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const Shape& shape : {kLarge, kSmall, kKeep, kEstimates})
    names.emplace_back(shape.case_name);
  for (const Contents& contents : kContents) names.emplace_back(contents.case_name);
  return names;
}

/// Those that can have a row in the case. `is_held`: of a disk that is held, alone.
std::vector<std::string> subjects_of(std::string_view case_name, bool is_held) {
  std::vector<std::string> names;
  const auto add = [&](const std::vector<LoaderKind>& kinds, bool is_of_disk) {
    for (const LoaderKind& kind : kinds)
      if (kind.reads_disk || !is_of_disk) names.emplace_back(kind.name);
  };
  if (case_name == kLarge.case_name || case_name == kSmall.case_name) add(loader_kinds(), is_held);
  if (case_name == kKeep.case_name) add(keep_kinds(), false);
  if (case_name == kEstimates.case_name) names.emplace_back(kEstimate);
  if (std::ranges::find(kContents, case_name, &Contents::case_name) != kContents.end())
    for (const RestorerKind& kind : restorer_kinds()) names.emplace_back(kind.name);
  return names;
}

void add_new(std::vector<std::string>& names, const std::vector<std::string>& more) {
  for (const std::string& name : more)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

Result<std::vector<std::string>> parse_cases(const std::string& text) {
  return named_subjects(text, case_names(), "case");
}

Result<std::vector<std::string>> parse_subjects(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& one : case_names()) add_new(names, subjects_of(one, false));
  return named_subjects(text, names);
}

bool are_held(const Settings& settings) {
  return std::ranges::find(settings.disks, kAsIs.name) == settings.disks.end();
}

/// Gigabytes are not to be made of which nothing is measured. Errors: of a word of --cases.
Result<void> check_fit(const Settings& settings) {
  const std::vector<std::string> all{"all"};
  for (const std::string& word : settings.cases.empty() ? all : settings.cases) {
    if (word == kGuest && settings.guest.empty())
      return Unexpected({Code::invalid_argument, fmt::format("--cases {}: there is no guest", word),
                         "name a file that has its memory: --guest FILE"});
    std::vector<std::string> subjects;
    bool is_measured = false;
    for (const std::string& one : case_names()) {
      if (word != all.front() && !names_subject(word, one)) continue;
      add_new(subjects, subjects_of(one, are_held(settings)));
      is_measured |= settings.measures(one);
    }
    if (!is_measured)
      return Unexpected({Code::invalid_argument,
                         fmt::format("--cases {}: it has no subject {}{}", word,
                                     fmt::join(settings.subjects, ", nor "),
                                     are_held(settings) ? " on a disk that is held" : ""),
                         fmt::format("there are: {}", fmt::join(subjects, ", "))});
  }
  return {};
}

Result<std::string> parse_guest(const std::string& path) {
  if (path.empty() || std::filesystem::is_regular_file(path)) return path;
  return Unexpected({Code::invalid_argument, fmt::format("'{}' is no file", path),
                     "name one that has a guest's memory"});
}

}  // namespace

Manual manual(Settings& settings) {
  return {
      .description =
          "Times how weights, or a memory that was saved, come from a cold file into the memory of "
          "a "
          "process that starts: from Gantry's images, packed and not, as programs read them "
          "otherwise, and as quickly as the disk gives them.",
      .notes = fmt::format(
          "Each start is a process of its own. In weights its file is dropped from the page\n"
          "cache, which mincore() confirms, and every byte is compared with what was made,\n"
          "outside the timed part. In keep 1 to 8 workers load from the page cache, or\n"
          "attach what another process keeps, and read everything. In restore a memory that\n"
          "was saved comes back; timed is until a tenth of its pages was read, in an order\n"
          "of its own. In estimate 20 loads a round are estimated before. Files go to\n"
          "$TMPDIR: {} times the size, {} times that of a memory. --disk 1GB/s and 0.5GB/s\n"
          "are a control group's, and take root. There are no --peers: what this is\n"
          "compared with is always there.\n\n"
          "Example: gantry bench start --cases weights/small --sizes 4G --json > start.json",
          kFilesOfWeights, kFilesOfMemory),
      .sizes = "1G",
      .quick_sizes = "128M",
      .rounds = 5,
      .quick_rounds = 3,
      .sized = "Weights'",
      .own = {option_into(settings.cases, "--cases", "Cases or families of them: weights, restore",
                          "all", "all", parse_cases),
              option_into(settings.subjects, "--subjects",
                          "Subjects or families of them: gantry,limit", "all", "all",
                          parse_subjects),
              choice_into(
                  settings.disks, "--disk", "disk",
                  {std::string(kAsIs.name), std::string(kOneGb.name), std::string(kHalfGb.name)}),
              option_into(settings.guest, "--guest",
                          "A file that is a guest's memory, for restore/guest", "", "",
                          parse_guest)},
      .check = [&settings] { return check_fit(settings); }};
}

bool Settings::wants_case(std::string_view name) const noexcept {
  return is_named(cases, name);
}

bool Settings::wants(std::string_view subject) const noexcept {
  return is_named(subjects, subject);
}

bool Settings::measures(std::string_view case_name) const {
  return wants_case(case_name) &&
         std::ranges::any_of(subjects_of(case_name, are_held(*this)),
                             [&](const std::string& name) { return wants(name); });
}

std::string case_of(std::string_view what, Bytes bytes, const Disk& disk) {
  const std::string name = fmt::format("{}/{}", what, format_size(bytes));
  return disk.bytes_per_second == 0 ? name : fmt::format("{}@{}", name, disk.name);
}

std::string case_of(Bytes bytes, unsigned workers) {
  return fmt::format("{}/{}/{} worker{}", kKeep.case_name, format_size(bytes), workers,
                     workers == 1 ? "" : "s");
}

}  // namespace gantry::bench
