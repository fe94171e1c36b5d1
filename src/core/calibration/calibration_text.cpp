#include "core/calibration/calibration_text.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/text_lines.hpp"

namespace gantry {
namespace {

constexpr std::string_view kFormat = "gantry-calibration ";
constexpr std::string_view kVersion = "2";
constexpr std::string_view kLastLine = "end";
constexpr std::size_t kMaxEngines = 8;
constexpr std::size_t kMaxPoints = 64;
constexpr double kLongestNs = 1e15;  // eleven days

std::string_view next_word(std::string_view& line) {
  const auto space = line.find(' ');
  const std::string_view word = line.substr(0, space);
  line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
  return word;
}

template <class Number>
bool parse(std::string_view word, Number& number) {
  const auto value = number_in<Number>(word);
  if (value) number = *value;
  return value.has_value();
}

bool parse_ns(std::string_view word, double& ns) {
  return parse(word, ns) && std::isfinite(ns) && ns > 0 && ns <= kLongestNs;
}

bool parse_source(std::string_view word, Calibration::Source& source) {
  for (const auto each : {Calibration::Source::quick, Calibration::Source::full})
    if (word == to_string(each)) {
      source = each;
      return true;
    }
  return false;
}

bool parse_class(std::string_view word, std::size_t& place) {
  for (place = 0; place < kReshapeClasses; ++place)
    if (word == to_string(static_cast<ReshapeClass>(place))) return true;
  return false;
}

// The rest of a line: sizes rise from point to point.
bool parse_point(std::string_view line, std::vector<CostPoint>& points) {
  CostPoint point;
  const bool sane = parse(next_word(line), point.bytes) &&
                    parse_ns(next_word(line), point.synchronous_ns) &&
                    parse_ns(next_word(line), point.queued_ns) &&
                    parse_ns(next_word(line), point.caller_ns) && line.empty();
  const Bytes above = points.empty() ? 0 : points.back().bytes;
  if (!sane || point.bytes <= above || points.size() == kMaxPoints) return false;
  points.push_back(point);
  return true;
}

bool is_engine_name(std::string_view word) {
  return !word.empty() && word.size() <= 32 && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

/// Reads line after line and notes which required ones it has seen.
class Reader {
 public:
  Result<Calibration> read(std::string_view text);

 private:
  bool take(std::string_view line);
  bool take_engine(std::string_view line);
  bool take_point(std::string_view line);
  bool take_reshape(std::string_view line);
  static Result<void> take_first(std::string_view line);
  [[nodiscard]] bool is_whole() const {
    return machine_ && source_ && streaming_ && share_ && gain_ && !found_.engines.empty() &&
           std::ranges::none_of(found_.engines, [](const auto& e) { return e.points.empty(); });
  }
  static bool once(bool& seen) { return !std::exchange(seen, true); }

  Calibration found_;
  bool machine_ = false, source_ = false, streaming_ = false, share_ = false, gain_ = false;
};

bool Reader::take(std::string_view line) {
  const std::string_view key = next_word(line);
  if (key == "machine") {
    found_.machine = line;
    return once(machine_) && !line.empty();
  }
  if (key == "source") return once(source_) && parse_source(line, found_.source);
  if (key == "streaming-from") return once(streaming_) && parse(line, found_.streaming_from);
  if (key == "cache-share") return once(share_) && parse(line, found_.cache_share);
  if (key == "helping-gain")
    return once(gain_) && parse(line, found_.helping_gain) && found_.helping_gain > 0 &&
           found_.helping_gain < 100;
  if (key == "engine") return take_engine(line);
  if (key == "reshape") return take_reshape(line);
  return key == "point" && take_point(line);
}

bool Reader::take_engine(std::string_view line) {
  const std::string_view name = next_word(line);
  if (!is_engine_name(name) || (line != "measured" && line != "simulated")) return false;
  if (found_.engines.size() == kMaxEngines) return false;
  if (std::ranges::count(found_.engines, name, &EngineCosts::engine) != 0) return false;
  found_.engines.push_back({std::string(name), line == "simulated", {}});
  return true;
}

bool Reader::take_point(std::string_view line) {
  if (found_.engines.empty()) return false;
  EngineCosts& engine = found_.engines.back();
  const bool is_late =
      std::ranges::any_of(engine.reshapes, [](const auto& points) { return !points.empty(); });
  return !is_late && parse_point(line, engine.points);
}

bool Reader::take_reshape(std::string_view line) {
  std::size_t place = 0;
  if (found_.engines.empty() || found_.engines.back().points.empty()) return false;
  return parse_class(next_word(line), place) &&
         parse_point(line, found_.engines.back().reshapes[place]);
}

Result<void> Reader::take_first(std::string_view line) {
  if (!line.starts_with(kFormat)) return fail(Code::invalid_argument, "line 1 makes no sense");
  const std::string_view version = line.substr(kFormat.size());
  if (version == kVersion) return {};
  return fail(Code::invalid_argument,
              fmt::format("its format is version '{}', this program's is {}", version, kVersion));
}

Result<Calibration> Reader::read(std::string_view text) {
  std::size_t number = 0;
  bool ended = false;
  while (!text.empty() && !ended) {
    ++number;
    const auto newline = text.find('\n');
    if (newline == std::string_view::npos) break;
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline + 1);
    if (number == 1) {
      GANTRY_TRY(take_first(line));
      continue;
    }
    ended = line == kLastLine;
    if (!ended && !take(line))
      return fail(Code::invalid_argument, fmt::format("line {} makes no sense", number));
  }
  if (!ended || !text.empty()) return fail(Code::invalid_argument, "it does not end as it should");
  if (!is_whole()) return fail(Code::invalid_argument, "something is missing");
  return std::move(found_);
}

std::string line_of(const CostPoint& point) {
  return fmt::format("{} {} {} {}\n", point.bytes, point.synchronous_ns, point.queued_ns,
                     point.caller_ns);
}

}  // namespace

std::string write_calibration(const Calibration& calibration) {
  std::string text = fmt::format("{}{}\nmachine {}\nsource {}\n", kFormat, kVersion,
                                 calibration.machine, to_string(calibration.source));
  text +=
      fmt::format("streaming-from {}\ncache-share {}\nhelping-gain {}\n",
                  calibration.streaming_from, calibration.cache_share, calibration.helping_gain);
  for (const EngineCosts& costs : calibration.engines) {
    text += fmt::format("engine {} {}\n", costs.engine, costs.simulated ? "simulated" : "measured");
    for (const CostPoint& point : costs.points) text += "point " + line_of(point);
    for (std::size_t i = 0; i < kReshapeClasses; ++i)
      for (const CostPoint& point : costs.reshapes[i])
        text +=
            fmt::format("reshape {} {}", to_string(static_cast<ReshapeClass>(i)), line_of(point));
  }
  return text + fmt::format("{}\n", kLastLine);
}

Result<Calibration> read_calibration(std::string_view text) {
  return Reader().read(text);
}

}  // namespace gantry
