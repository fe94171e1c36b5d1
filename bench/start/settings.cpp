#include "settings.hpp"

#include <fmt/format.h>

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

Result<std::vector<std::string>> parse_cases(const std::string& text) {
  std::vector<std::string> names;
  for (const Shape& shape : {kLarge, kSmall, kKeep, kEstimates})
    names.emplace_back(shape.case_name);
  for (const Contents& contents : kContents) names.emplace_back(contents.case_name);
  return named_subjects(text, names, "case");
}

Result<std::vector<std::string>> parse_subjects(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& kinds : {loader_kinds(), attach_kinds()})
    for (const LoaderKind& kind : kinds) names.emplace_back(kind.name);
  for (const RestorerKind& kind : restorer_kinds()) names.emplace_back(kind.name);
  names.emplace_back(kEstimate);
  return named_subjects(text, names);
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
      .notes =
          "Each start is a process of its own. In weights its file is dropped from the page\n"
          "cache, which mincore() confirms, and every byte is compared with what was made,\n"
          "outside the timed part. In keep 1 to 8 workers load from the page cache, or\n"
          "attach what another process keeps, and read everything. In restore a memory that\n"
          "was saved comes back; timed is until a tenth of its pages was read, in an order\n"
          "of its own. In estimate 20 loads a round are estimated before. Files go to\n"
          "$TMPDIR, five times the size. --disk 1GB/s and 0.5GB/s are a control group's,\n"
          "and take root. There are no --peers: what this is compared with is always there.\n\n"
          "Example: gantry bench start --cases weights/small --sizes 4G --json > start.json",
      .sizes = "1G",
      .quick_sizes = "128M",
      .rounds = 5,
      .quick_rounds = 3,
      .sized = "Weights'",
      .own = {
          option_into(settings.cases, "--cases", "Cases or families of them: weights, restore",
                      "all", "all", parse_cases),
          option_into(settings.subjects, "--subjects", "Subjects or families of them: gantry,limit",
                      "all", "all", parse_subjects),
          choice_into(
              settings.disks, "--disk", "disk",
              {std::string(kAsIs.name), std::string(kOneGb.name), std::string(kHalfGb.name)}),
          option_into(settings.guest, "--guest",
                      "A file that is a guest's memory, for restore/guest", "", "", parse_guest)}};
}

bool Settings::wants_case(std::string_view name) const noexcept {
  return is_named(cases, name);
}

bool Settings::wants(std::string_view subject) const noexcept {
  return is_named(subjects, subject);
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
