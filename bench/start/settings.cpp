#include "settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../support/program/choices.hpp"
#include "../support/program/sizes.hpp"
#include "loaders.hpp"

namespace gantry::bench {
namespace {

bool is_named(const std::vector<std::string>& words, std::string_view name) {
  return words.empty() || std::ranges::any_of(words, [&](const std::string& word) {
           return names_subject(word, name);
         });
}

Result<std::vector<std::string>> parse_cases(const std::string& text) {
  std::vector<std::string> names;
  for (const Shape& shape : {kLarge, kSmall, kKeep}) names.emplace_back(shape.case_name);
  return named_subjects(text, names, "case");
}

Result<std::vector<std::string>> parse_subjects(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& kinds : {loader_kinds(), attach_kinds()})
    for (const LoaderKind& kind : kinds) names.emplace_back(kind.name);
  return named_subjects(text, names);
}

}  // namespace

Manual manual(Settings& settings) {
  return {
      .description =
          "Times how weights come from a cold file into the memory of a process that starts: from "
          "Gantry's images, packed and not, from a safetensors file as programs read it, and as "
          "quickly as the disk gives them.",
      .notes =
          "Each start is a process of its own. In weights its file is dropped from the page "
          "cache,\n"
          "which mincore() confirms, and every byte is compared with what was made, outside the "
          "timed\n"
          "part. In keep 1 to 8 workers load from the page cache, or attach what another process "
          "keeps,\n"
          "and read everything. Files go to $TMPDIR, three times the size. --disk 1GB/s and "
          "0.5GB/s\n"
          "are a control group's, and take root. There are no --peers: what this is compared with "
          "is always there.\n\n"
          "Example: gantry bench start --cases weights/small --sizes 4G --json > start.json",
      .sizes = "1G",
      .quick_sizes = "128M",
      .rounds = 5,
      .quick_rounds = 3,
      .sized = "Weights'",
      .own = {
          option_into(settings.cases, "--cases", "Cases or families of them: weights, keep", "all",
                      "all", parse_cases),
          option_into(settings.subjects, "--subjects", "Subjects or families of them: gantry,limit",
                      "all", "all", parse_subjects),
          choice_into(
              settings.disks, "--disk", "disk",
              {std::string(kAsIs.name), std::string(kOneGb.name), std::string(kHalfGb.name)})}};
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
