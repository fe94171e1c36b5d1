#include "tools/command_line/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>

namespace gantry::cli {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};  // the same label at most so often
constexpr std::chrono::seconds kRepeat{10};        // the same plain line
constexpr std::chrono::seconds kFirstEstimate{1};  // before it, too little is known
constexpr std::size_t kBarColumns = 24;
constexpr std::size_t kUsualColumns = 80;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool says_utf8(std::string_view locale) {
  std::string plain;
  for (const char letter : locale)
    if (letter != '-') plain += static_cast<char>(letter | 0x20);  // lower case
  return plain.find("utf8") != std::string::npos;
}

bool begins_code_point(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_code_point));
}

std::string_view first_columns(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t seen = 0; at < text.size(); ++at)
    if (begins_code_point(text[at]) && ++seen > columns) break;
  return text.substr(0, at);
}

std::string bar(double part, bool is_utf8) {
  const auto filled = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * kBarColumns);
  std::string text = "[";
  for (std::size_t at = 0; at < kBarColumns; ++at)
    text += at < filled ? (is_utf8 ? "\u2588" : "#") : (is_utf8 ? "\u2591" : ".");
  return text + "]";
}

std::string left_text(double part, std::chrono::steady_clock::duration passed) {
  if (part <= 0 || part >= 1 || passed < kFirstEstimate) return {};
  const double passed_s = std::chrono::duration<double>(passed).count();
  const double left_s = passed_s / part * (1 - part);
  constexpr double kForEverS = 360'000;
  if (left_s >= kForEverS) return {};
  const auto s = static_cast<std::uint64_t>(left_s + 0.999);
  if (s < 60) return fmt::format("{} s left", s);
  if (s < 3600) return fmt::format("{} min {} s left", s / 60, s % 60);
  return fmt::format("{} h {} min left", s / 3600, s / 60 % 60);
}

void write_all(int stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(stream, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody is left to be told
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

ProgressStyle progress_style(int stream) {
  ProgressStyle style;
  style.is_drawn =
      ::isatty(stream) == 1 && variable("TERM") != "dumb" && variable("NO_COLOR").empty();
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const std::string_view locale = variable(name); !locale.empty()) {
      style.is_utf8 = says_utf8(locale);
      break;
    }
  return style;
}

std::size_t terminal_columns(int stream) noexcept {
  winsize size{};
  return ::ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : kUsualColumns;
}

std::string cut_to(std::string_view text, std::size_t columns, bool is_utf8) {
  if (columns_of(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  return std::string(first_columns(text, columns - 1)) + (is_utf8 ? "\u2026" : "~");
}

std::string progress_line(const ProgressLine& line, std::size_t columns, bool is_utf8) {
  const std::size_t room = columns - 1;  // in the last column the cursor would wrap
  const std::string drawn = bar(line.part, is_utf8);
  const auto joined = [&](bool title, bool has_bar, bool left, std::string_view label) {
    std::string text;
    const auto add = [&](std::string_view piece) {
      if (!piece.empty()) text += (text.empty() ? "" : " ") + std::string(piece);
    };
    if (title) add(line.title);
    if (has_bar) add(drawn);
    add(line.count);
    add(label);
    if (left && !line.left.empty()) add(fmt::format("({})", line.left));
    return text;
  };
  for (int dropped = 0; dropped < 4; ++dropped) {
    std::string text = joined(dropped < 1, dropped < 2, dropped < 3, line.label);
    if (columns_of(text) <= room) return text;
  }
  return cut_to(joined(false, false, false, line.label), room, is_utf8);
}

Progress::Progress(std::string title, std::uint64_t steps, int stream)
    : title_(std::move(title)), steps_(steps), stream_(stream), style_(progress_style(stream)) {}

void Progress::step(std::string_view label) {
  const double part = steps_ == 0 ? 0 : static_cast<double>(begun_) / static_cast<double>(steps_);
  ++begun_;
  show(label, part, fmt::format("{}/{}", begun_, steps_));
}

void Progress::show(std::string_view label, double part, std::string_view count) {
  const auto now = Clock::now();
  const bool has_begun = last_ == Clock::time_point{} || label != label_;
  label_ = label;
  if (!has_begun && now - last_ < (style_.is_drawn ? Clock::duration(kRedraw) : kRepeat)) return;
  if (style_.is_drawn)
    draw(part, count, now);
  else
    print(has_begun, part, count, now);
  last_ = now;
}

void Progress::draw(double part, std::string_view count, Clock::time_point now) {
  const std::string left = left_text(part, now - started_);
  const std::string percent = fmt::format("{:.0f} %", part * 100);
  const std::string line =
      progress_line({title_, label_, count.empty() ? percent : count, left, part},
                    terminal_columns(stream_), style_.is_utf8);
  write_all(stream_, "\r" + line + "\x1b[K");
  is_shown_ = true;
}

void Progress::print(bool has_begun, double part, std::string_view count, Clock::time_point now) {
  std::string text = fmt::format("{}: {}", title_, label_);
  if (!count.empty()) text += fmt::format(" ({})", count);
  const std::string left = left_text(part, now - started_);
  if (!has_begun && !left.empty()) text += ", " + left;
  write_all(stream_, text + "\n");
}

void Progress::clear() {
  if (is_shown_) write_all(stream_, kEraseLine);
  is_shown_ = false;
}

}  // namespace gantry::cli
