#include "errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace gantry::cli {

void note(std::string_view text) {
  // A name or a path may hold anything; the promise is one line.
  std::string line(text);
  std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  line = "gantry: " + line + "\n";
  std::fputs(line.c_str(), stderr);  // throws nothing when standard error is closed
}

int fail(const Error& error) {
  if (error.code == Code::interrupted) return kExitInterrupted;
  if (error.code == Code::closed) return kExitReaderLeft;
  note(to_string(error));
  return kExitFailure;
}

Error system_error(std::string what, int error_number, std::string hint) {
  const std::string why = std::generic_category().message(error_number);
  return {Code::system, fmt::format("{}: {}", what, why), std::move(hint)};
}

}  // namespace gantry::cli
