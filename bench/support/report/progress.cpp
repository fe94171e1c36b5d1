#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace gantry::bench {
namespace {

constexpr std::size_t kBarWidth = 30;

}  // namespace

Progress::Progress(std::string title, std::size_t steps, std::FILE* out)
    : out_(out), title_(std::move(title)), steps_(steps), on_terminal_(::isatty(::fileno(out))) {}

Progress::~Progress() {
  if (on_terminal_ && begun_ > 0) std::fputs("\r\033[K", out_);
  std::fflush(out_);
}

void Progress::step(const std::string& label) {
  ++begun_;
  if (on_terminal_) {
    draw_bar(label);
  } else if (label != label_) {
    std::fputs(fmt::format("{}: {} ({}/{})\n", title_, label, begun_, steps_).c_str(), out_);
    std::fflush(out_);
  }
  label_ = label;
}

void Progress::draw_bar(const std::string& label) const {
  const auto filled =
      std::min(kBarWidth, kBarWidth * (begun_ - 1) / std::max<std::size_t>(1, steps_));
  std::fputs(fmt::format("\r{} [{:#>{}}{:.>{}}] {}\033[K", title_, "", filled, "",
                         kBarWidth - filled, label)
                 .c_str(),
             out_);
  std::fflush(out_);
}

}  // namespace gantry::bench
