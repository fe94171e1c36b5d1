#include "plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sizes.hpp"

namespace gantry::bench {
namespace {

constexpr double kWidth = 980;
constexpr double kHeight = 560;
constexpr double kLeft = 80;
constexpr double kRight = 240;  // the names
constexpr double kTop = 50;
constexpr double kBottom = 60;
constexpr double kLineHeight = 15;
constexpr double kDots = 330;  // their axis, behind the names of subjects
constexpr double kDotsEnd = 770;
constexpr std::array kColours = {"#1b5e9e", "#c62828", "#2e7d32", "#6a1b9a", "#ef6c00", "#00838f",
                                 "#ad1457", "#5d4037", "#558b2f", "#283593", "#f9a825", "#455a64"};
constexpr std::array kDashes = {"", "6 3", "2 3"};  // once the colours are used up

struct Point {
  Bytes bytes = 0;
  double value = 0;
};

struct Line {
  std::string name;
  std::vector<Point> points;
};

/// From a value to a place on a logarithmic axis.
struct Axis {
  double low = 0;  // decimal logarithms
  double high = 1;
  double from = 0;
  double to = 1;

  [[nodiscard]] double at(double value) const {
    return from + (std::log10(value) - low) / (high - low) * (to - from);
  }
};

std::vector<Line> lines_of(const Report& report) {
  std::vector<Line> lines;
  for (const Row& row : report.rows) {
    if (row.metric != kThroughput || row.case_name != format_size(row.bytes)) continue;
    if (row.summary.value <= 0) continue;
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const Line& other) { return other.name == row.subject; });
    if (line == lines.end()) line = lines.insert(lines.end(), {row.subject, {}});
    line->points.push_back({row.bytes, row.summary.value});
  }
  for (Line& line : lines)
    std::sort(line.points.begin(), line.points.end(),
              [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
  return lines;
}

std::vector<Bytes> sizes_of(const std::vector<Line>& lines) {
  std::vector<Bytes> sizes;
  for (const Line& line : lines)
    for (const Point& point : line.points) sizes.push_back(point.bytes);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '<')
      safe += "&lt;";
    else if (letter == '&')
      safe += "&amp;";
    else
      safe += letter;
  }
  return safe;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view colour = "#222") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n",
                     x, y, anchor, colour, escaped(text));
}

std::string rule(double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x1, y1,
      x2, y2);
}

std::string grid(const std::vector<Bytes>& sizes, const Axis& x, const Axis& y) {
  std::string text;
  for (const Bytes bytes : sizes) {
    const double at = x.at(static_cast<double>(bytes));
    text += rule(at, kTop, at, kHeight - kBottom);
    text += text_at(at, kHeight - kBottom + 18, "middle", format_size(bytes));
  }
  for (double power = y.low; power <= y.high + 0.5; ++power) {
    const double value = std::pow(10, power);
    text += rule(kLeft, y.at(value), kWidth - kRight, y.at(value));
    text += text_at(kLeft - 8, y.at(value) + 4, "end", fmt::format("{:g}", value));
  }
  text += text_at((kLeft + kWidth - kRight) / 2, kHeight - 14, "middle", "message");
  text += text_at(kLeft - 8, kTop - 12, "end", "GB/s");
  return text;
}

std::string drawn(const Line& line, std::size_t number, const Axis& x, const Axis& y) {
  const char* const colour = kColours[number % kColours.size()];
  const char* const dashes = kDashes[number / kColours.size() % kDashes.size()];
  std::string points;
  std::string dots;
  for (const Point& point : line.points) {
    const double px = x.at(static_cast<double>(point.bytes));
    const double py = y.at(point.value);
    points += fmt::format("{:.1f},{:.1f} ", px, py);
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", px, py,
                        colour);
  }
  return fmt::format(
             "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
             "stroke-dasharray=\"{}\"/>\n",
             points, colour, line.name.starts_with("gantry/") ? 3 : 1.5, dashes) +
         dots;
}

/// The names beside the lines' ends, pushed apart where these lie close to each other.
std::string names(const std::vector<Line>& lines, const Axis& x, const Axis& y) {
  struct Name {
    std::size_t line;
    double end;
    double at;
  };
  std::vector<Name> all;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double end = y.at(lines[i].points.back().value);
    all.push_back({i, end, end});
  }
  std::sort(all.begin(), all.end(), [](const Name& a, const Name& b) { return a.end < b.end; });
  for (std::size_t i = 1; i < all.size(); ++i)
    all[i].at = std::max(all[i].at, all[i - 1].at + kLineHeight);
  const double over = all.empty() ? 0 : std::max(0.0, all.back().at - (kHeight - kBottom));
  std::string text;
  for (const Name& name : all) {
    const Line& line = lines[name.line];
    const char* const colour = kColours[name.line % kColours.size()];
    const double end = x.at(static_cast<double>(line.points.back().bytes));
    text += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"0.5\"/>\n",
        end, name.end, kWidth - kRight + 26, name.at - over, colour);
    text += text_at(kWidth - kRight + 30, name.at - over + 4, "start", line.name, colour);
  }
  return text;
}

/// From the power of ten below the least to the one above the most.
Axis powers_around(double least, double most, double from, double to) {
  const double low = std::floor(std::log10(least));
  return {low, std::max(std::ceil(std::log10(most)), low + 1), from, to};
}

std::string framed(const Report& report, std::string_view what, double height,
                   const std::string& picture) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
             "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             kWidth, height) +
         text_at(kLeft, 22, "start", fmt::format("gantry bench {}: {}", report.bench, what)) +
         picture + "</svg>\n";
}

// ---- lines over sizes ----------------------------------------------------------------------

std::string plot_lines(const Report& report, const std::vector<Line>& lines) {
  const auto sizes = sizes_of(lines);
  double least = lines.front().points.front().value;
  double most = least;
  for (const Line& line : lines)
    for (const Point& point : line.points) {
      least = std::min(least, point.value);
      most = std::max(most, point.value);
    }
  const Axis x{std::log10(static_cast<double>(sizes.front())),
               std::log10(static_cast<double>(sizes.back())), kLeft, kWidth - kRight};
  const Axis y = powers_around(least, most, kHeight - kBottom, kTop);
  std::string picture = grid(sizes, x, y);
  for (std::size_t i = 0; i < lines.size(); ++i) picture += drawn(lines[i], i, x, y);
  return framed(report, "throughput by the size of a message", kHeight,
                picture + names(lines, x, y));
}

// ---- dots of cases -------------------------------------------------------------------------

/// The rows of the first metric that has some, with those of a case together.
std::vector<Row> dots_of(const Report& report) {
  std::vector<Row> dots;
  for (const Row& row : report.rows) {
    if (row.summary.value <= 0 || (!dots.empty() && row.metric != dots.front().metric)) continue;
    const auto same = std::find_if(dots.rbegin(), dots.rend(), [&](const Row& other) {
      return other.case_name == row.case_name;
    });
    dots.insert(same == dots.rend() ? dots.end() : same.base(), row);
  }
  return dots;
}

double least_of(const Row& row) {
  return row.summary.min > 0 ? row.summary.min : row.summary.value;
}

std::string dot(const Row& row, const Axis& x, double y) {
  const char* const colour = row.subject.starts_with("gantry/") ? kColours[0] : kColours[1];
  return fmt::format(
             "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n"
             "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n",
             x.at(least_of(row)), y, x.at(std::max(row.summary.max, row.summary.value)), y, colour,
             x.at(row.summary.value), y, colour) +
         text_at(kDots - 10, y + 4, "end", row.subject) +
         text_at(kDotsEnd + 20, y + 4, "start",
                 row.unit == "ns" ? time_text(row.summary.value)
                                  : fmt::format("{:.4g} {}", row.summary.value, row.unit));
}

std::string plot_dots(const Report& report, const std::vector<Row>& dots) {
  double least = least_of(dots.front());
  double most = dots.front().summary.value;
  for (const Row& row : dots) {
    least = std::min(least, least_of(row));
    most = std::max({most, row.summary.value, row.summary.max});
  }
  const Axis x = powers_around(least, most, kDots, kDotsEnd);
  std::string picture;
  double y = kTop;
  for (std::size_t i = 0; i < dots.size(); ++i) {
    if (i == 0 || dots[i].case_name != dots[i - 1].case_name)
      picture += text_at(kLeft, (y += 2 * kLineHeight) + 4, "start", dots[i].case_name);
    picture += dot(dots[i], x, y += kLineHeight);
  }
  std::string axis;
  for (double power = x.low; power <= x.high + 0.5; ++power) {
    const double value = std::pow(10, power);
    axis += rule(x.at(value), kTop, x.at(value), y + kLineHeight) +
            text_at(x.at(value), kTop - 6, "middle", fmt::format("{:g}", value));
  }
  return framed(report, fmt::format("{} ({})", dots.front().metric, dots.front().unit),
                y + 2 * kLineHeight, axis + picture);
}

}  // namespace

std::string plot_svg(const Report& report) {
  if (const auto lines = lines_of(report); sizes_of(lines).size() >= 2)
    return plot_lines(report, lines);
  const auto dots = dots_of(report);
  return dots.empty() ? std::string() : plot_dots(report, dots);
}

}  // namespace gantry::bench
