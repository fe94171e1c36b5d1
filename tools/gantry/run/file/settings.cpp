#include "run/file/settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/command_line/suggest.hpp"

namespace gantry::run {
namespace {

constexpr const char* kHere = "here";
constexpr const char* kTable = "settings";

bool is_plain(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
  });
}

Result<void> check_key(const Fields& fields, const Entry& entry) {
  if (entry.key == kHere)
    return tl::unexpected(fields.error(entry.key, entry.at, "is always the folder of the file",
                                       "choose another name"));
  if (!is_plain(entry.key))
    return tl::unexpected(fields.error(entry.key, entry.at, "is no name for a setting",
                                       "use letters, digits, '_' and '-'"));
  if (!entry.value.is_scalar())
    return tl::unexpected(fields.wrong_type(entry, "a string, a number, or true or false"));
  return {};
}

const Setting* last_override(const std::vector<Setting>& overrides, std::string_view key) {
  const auto found = std::find_if(overrides.rbegin(), overrides.rend(),
                                  [key](const Setting& one) { return one.key == key; });
  return found == overrides.rend() ? nullptr : &*found;
}

void check_overrides(const Source& source, const std::vector<Setting>& settings,
                     const std::vector<Setting>& overrides, Mistakes& mistakes) {
  std::vector<std::string> known;
  for (const Setting& setting : settings)
    if (setting.key != kHere) known.push_back(setting.key);
  for (const Setting& override : overrides)
    if (std::ranges::count(known, override.key) == 0)
      mistakes.note<void>(tl::unexpected(
          Error{Code::invalid_argument,
                fmt::format("--set {}: {} has no such setting", override.key, source.path),
                cli::suggest(override.key, known)}));
}

}  // namespace

Result<std::string> fill_in(const Source& source, std::string_view what, const Text& text,
                            const std::vector<Setting>& settings) {
  Result<std::string> filled = substitute(text.value, settings);
  if (!filled)
    return tl::unexpected(source.error(text.at, what, filled.error().message, filled.error().hint));
  if (filled->find('\0') != std::string::npos)  // argv and environ end at the first one
    return tl::unexpected(source.error(text.at, what, "holds a zero character"));
  return filled;
}

std::vector<Setting> read_settings(const Source& source, const Fields& file,
                                   const std::vector<Setting>& overrides, Mistakes& mistakes) {
  std::vector<Setting> settings{{kHere, source.folder}};
  const Result<const Entry*> table = file.find(kTable, Node::Kind::table);
  if (mistakes.note(table) && *table != nullptr) {
    const Fields fields(source, kTable, (*table)->at, (*table)->value);
    for (const Entry& entry : (*table)->value.entries) {
      const bool is_sound = mistakes.note(check_key(fields, entry));
      if (const Setting* override = last_override(overrides, entry.key)) {
        settings.push_back(*override);
        continue;
      }
      Result<std::string> value;
      if (is_sound)
        value = fill_in(source, fmt::format("{}.{}", kTable, entry.key),
                        {entry.value.text, entry.value.at}, settings);
      settings.push_back({entry.key, mistakes.note(value) ? std::move(*value) : ""});
    }
  }
  check_overrides(source, settings, overrides, mistakes);
  return settings;
}

}  // namespace gantry::run
