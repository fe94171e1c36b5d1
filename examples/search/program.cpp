#include "program.hpp"

#include <charconv>
#include <cstdio>
#include <string>

namespace search {
namespace {

int show_usage(const Program& program, std::FILE* to, int status) {
  std::fprintf(to, "usage: %s %s\n", program.name, program.arguments);
  if (status == kDone)
    std::printf("%s\nIt is started by `gantry run`; see pipeline.toml.\n", program.summary);
  return status;
}

int complain(const Program& program, const gantry::Error& error) {
  std::fprintf(stderr, "%s: %s\n", program.name, gantry::to_string(error).c_str());
  return error.code == gantry::Code::invalid_argument ? kMisused : kFailed;
}

}  // namespace

Result<std::size_t> parse_number(std::string_view text, std::string_view what, std::size_t most) {
  std::size_t number = 0;
  const auto* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && stopped == end && number >= 1 && number <= most) return number;
  return refuse(std::string(what) + ": '" + std::string(text) + "' is not a number from 1 to " +
                    std::to_string(most),
                "");
}

int run_program(const Program& program, int argc, const char* const* argv,
                Result<void> (*run)(Arguments)) {
  const Arguments arguments(argv + 1, argc > 0 ? static_cast<std::size_t>(argc - 1) : 0);
  if (!arguments.empty() && std::string_view(arguments[0]) == "--help")
    return show_usage(program, stdout, kDone);
  if (arguments.size() != program.count) return show_usage(program, stderr, kMisused);
  try {
    const auto done = run(arguments);
    return done ? kDone : complain(program, done.error());
  } catch (const std::exception& thrown) {  // OpenCV's, or memory ran out
    return complain(program, {gantry::Code::system, thrown.what(), ""});
  }
}

}  // namespace search
