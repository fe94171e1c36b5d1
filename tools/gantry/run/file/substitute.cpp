#include "run/file/substitute.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/command_line/suggest.hpp"

namespace gantry::run {
namespace {

constexpr const char* kBraceHint = "write {key} for a setting, {{ or }} for a brace";

Error unknown_key(std::string_view key, const std::vector<Setting>& settings) {
  std::vector<std::string> known;
  for (const Setting& setting : settings) known.push_back(setting.key);
  return {Code::invalid_argument, fmt::format("there is no setting '{}'", key),
          fmt::format("{} ({})", cli::suggest(key, known), kBraceHint)};
}

/// Appends the value of the {key} that begins at `at`; returns the place after it.
Result<std::size_t> append_setting(std::string_view text, std::size_t at,
                                   const std::vector<Setting>& settings, std::string& result) {
  const std::size_t end = text.find('}', at);
  if (end == std::string_view::npos)
    return tl::unexpected(Error{Code::invalid_argument, "a '{' is never closed", kBraceHint});
  const std::string_view key = text.substr(at + 1, end - at - 1);
  const auto found = std::ranges::find(settings, key, &Setting::key);
  if (found == settings.end()) return tl::unexpected(unknown_key(key, settings));
  result += found->value;
  return end + 1;
}

}  // namespace

Result<std::string> substitute(std::string_view text, const std::vector<Setting>& settings) {
  std::string result;
  std::size_t at = 0;
  while (at < text.size()) {
    const char letter = text[at];
    const bool is_doubled = at + 1 < text.size() && text[at + 1] == letter;
    if ((letter == '{' || letter == '}') && is_doubled) {
      result += letter;
      at += 2;
    } else if (letter == '{') {
      const Result<std::size_t> next = append_setting(text, at, settings, result);
      if (!next) return tl::unexpected(next.error());
      at = *next;
    } else if (letter == '}') {
      return tl::unexpected(Error{Code::invalid_argument, "a '}' was never opened", kBraceHint});
    } else {
      result += letter;
      ++at;
    }
  }
  return result;
}

}  // namespace gantry::run
