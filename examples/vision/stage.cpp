#include "stage.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <opencv2/core/utility.hpp>
#include <opencv2/core/utils/logger.hpp>

namespace vision {
namespace {

void print_usage(const Program& program, std::FILE* to) {
  std::fprintf(to, "usage: %s %s\n", program.name, program.arguments);
}

int print_help(const Program& program) {
  print_usage(program, stdout);
  std::printf("%s\nIt is started by `gantry run`; see pipeline.toml.\n", program.summary);
  return kDone;
}

}  // namespace

gantry::Result<unsigned> parse_number(std::string_view text, std::string_view what, unsigned least,
                                      unsigned most) {
  unsigned number = 0;
  const auto* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && stopped == end && number >= least && number <= most) return number;
  return tl::unexpected(gantry::Error{gantry::Code::invalid_argument,
                                      std::string(what) + ": '" + std::string(text) +
                                          "' is not a number from " + std::to_string(least) +
                                          " to " + std::to_string(most),
                                      ""});
}

int complain(const Program& program, const gantry::Error& error, int status) {
  if (error.code == gantry::Code::build_failed) {  // a compiler's log, whose lines are its order
    std::fprintf(stderr, "%s: %s\n", program.name, gantry::to_string(error).c_str());
    return status;
  }
  auto line = gantry::to_string(error);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line.erase(line.find_last_not_of(' ') + 1);
  std::fprintf(stderr, "%s: %s\n", program.name, line.c_str());
  return status;
}

std::optional<int> check_usage(const Program& program, Arguments arguments) {
  if (!arguments.empty() && std::string_view(arguments[0]) == "--help") return print_help(program);
  if (arguments.size() >= program.least && arguments.size() <= program.most) return std::nullopt;
  print_usage(program, stderr);
  return kMisused;
}

void tame_opencv() {
  cv::setNumThreads(1);
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  ::setenv("OPENCV_FFMPEG_LOGLEVEL", "-8", 0);  // AV_LOG_QUIET
}

}  // namespace vision
