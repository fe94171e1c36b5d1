#include "cases.hpp"

#include <fmt/format.h>

#include <numeric>

#include "../support/program/sizes.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kWindow = 4;  // messages in flight
constexpr std::array kReaders = {1u, 2u, 4u};
constexpr Bytes kLargestInFlight = Bytes{256} << 20;  // each is there several times
constexpr Bytes kMostFannedOut = Bytes{64} << 20;
constexpr Bytes kLeastComputing = Bytes{1} << 20;  // below, the message is there before work begins
constexpr Bytes kLeastTyped = Bytes{4} << 10;      // below, a message costs more than its bytes
constexpr Bytes kMostLogits = Bytes{1} << 20;      // as many as a large vocabulary has
constexpr Bytes kLeastRows = Bytes{1} << 20;
constexpr Bytes kMostBeside = Bytes{64} << 10;    // larger ones are streams themselves
constexpr std::chrono::microseconds kPause{300};  // longer than Gantry's ends poll: they sleep
constexpr Bytes kLarge = Bytes{64} << 20;  // from here on request shapes belong in flight, too

Case of_size(Bytes bytes) {
  return {.name = format_size(bytes), .bytes = bytes, .directory = {}, .segments = {bytes}};
}

Case of_segments(const char* name, std::vector<Bytes> segments) {
  const Bytes bytes = std::accumulate(segments.begin(), segments.end(), Bytes{0});
  return {.name = name, .bytes = bytes, .directory = {}, .segments = std::move(segments)};
}

Case image_batch() {
  return of_segments(kImageBatch, {Bytes{256} * 3 * 224 * 224 * sizeof(float)});
}

Case frame() {
  return of_segments(kFrame, {Bytes{3840} * 2160 * 3 * sizeof(float)});
}

/// 16 columns of 8 bytes (keys, times, amounts), 16 of 4 (counts, codes), 8 of 1 (flags).
Case table() {
  constexpr Bytes kRows = 1'000'000;
  std::vector<Bytes> columns;
  columns.insert(columns.end(), 16, kRows * 8);
  columns.insert(columns.end(), 16, kRows * 4);
  columns.insert(columns.end(), 8, kRows);
  return of_segments(kTable, std::move(columns));
}

/// 100,000 vertices and 2,500,000 edges: offsets (64 bits, one more than vertices), neighbours (32
/// bits), weights (fp32), and the vertices' features (128 fp32).
Case neighbourhood() {
  constexpr Bytes kVertices = 100'000;
  constexpr Bytes kEdges = 2'500'000;
  return of_segments(kNeighbourhood, {(kVertices + 1) * 8, kEdges * 4, kEdges * sizeof(float),
                                      kVertices * 128 * sizeof(float)});
}

Case in_flight(Case what) {
  what.name = in_flight_name(what.name);
  what.in_flight = kWindow;
  return what;
}

Case fanned_out(Case what, unsigned readers) {
  what.name = fan_out_name(readers, what.name);
  what.readers = readers;
  what.times_send = true;
  return what;
}

Case handed_off(Case what) {
  what.name = hand_off_name(what.name);
  what.reads = false;
  return what;
}

Case computing(Case what) {
  what.name = computing_name(what.name);
  what.computes = what.times_send = true;
  return what;
}

Case typed(Case what) {
  what.name = typed_name(what.name);
  what.is_typed = true;
  return what;
}

Case asking(Case what, Asked asked) {
  what.name = asked_name(asked, what.name);
  what.asked = asked;
  return what;
}

Case beside(Case what, Beside beside, bool is_paced) {
  what.name = beside_name(beside, is_paced, what.name);
  what.beside = beside;
  if (is_paced) what.pause = kPause;
  return what;
}

}  // namespace

std::string in_flight_name(std::string_view of) {
  return fmt::format("in-flight-{}/{}", kWindow, of);
}

std::string fan_out_name(unsigned readers, std::string_view of) {
  return fmt::format("fan-out-{}/{}", readers, of);
}

std::string hand_off_name(std::string_view of) {
  return fmt::format("hand-off/{}", of);
}

std::string computing_name(std::string_view of) {
  return fmt::format("computing/{}", of);
}

std::string typed_name(std::string_view of) {
  return fmt::format("typed/{}", of);
}

std::string beside_name(Beside beside, bool is_paced, std::string_view of) {
  return fmt::format("beside-{}{}/{}",
                     beside == Beside::nothing  ? "nothing"
                     : beside == Beside::stream ? "stream"
                                                : "copies",
                     is_paced ? "-paced" : "", of);
}

std::string asked_name(Asked asked, std::string_view of) {
  return fmt::format("{}/{}", asked == Asked::top ? "top" : "nearest", of);
}

Case case_named(std::string_view name, Bytes bytes) {
  for (const Case& shape : {image_batch(), frame(), table(), neighbourhood()})
    if (shape.name == name) return shape;
  return of_size(bytes);
}

std::vector<Case> cases_of(const Settings& settings) {
  const std::vector<Bytes>& sizes = settings.common.sizes;
  const Bytes largest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<Case> cases;
  for (const Bytes bytes : sizes)
    if (settings.asks(kLatency)) cases.push_back(of_size(bytes));
  if (settings.asks(kShapes))
    cases.insert(cases.end(), {image_batch(), frame(), table(), neighbourhood()});
  if (settings.asks(kInFlight)) {
    for (const Bytes bytes : sizes)
      if (bytes <= kLargestInFlight) cases.push_back(in_flight(of_size(bytes)));
    if (largest >= kLarge)
      cases.insert(cases.end(), {in_flight(frame()), in_flight(image_batch())});
  }
  for (const Bytes bytes : sizes)
    for (const unsigned readers : kReaders)
      if (settings.asks(kFanOut) && bytes <= kMostFannedOut)
        cases.push_back(fanned_out(of_size(bytes), readers));
  for (const Bytes bytes : sizes)
    if (settings.asks(kHandOff)) cases.push_back(handed_off(of_size(bytes)));
  for (const Bytes bytes : sizes)
    if (settings.asks(kComputing) && bytes >= kLeastComputing && bytes <= kMostFannedOut)
      cases.push_back(computing(of_size(bytes)));
  if (settings.asks(kTyped)) {
    for (const Bytes bytes : sizes)
      if (bytes >= kLeastTyped && bytes <= kLargestInFlight) cases.push_back(typed(of_size(bytes)));
    if (largest >= kLarge) cases.push_back(typed(image_batch()));
  }
  for (const Bytes bytes : sizes) {
    if (!settings.asks(kDecisions) || bytes < kLeastTyped || bytes > kLargestInFlight) continue;
    if (bytes <= kMostLogits) cases.push_back(asking(of_size(bytes), Asked::top));
    if (bytes >= kLeastRows) cases.push_back(asking(of_size(bytes), Asked::nearest));
  }
  for (const Bytes bytes : sizes) {
    if (!settings.asks(kBeside) || bytes > kMostBeside) continue;
    for (const bool is_paced : {false, true})
      for (const Beside what : {Beside::nothing, Beside::stream, Beside::copies})
        cases.push_back(beside(of_size(bytes), what, is_paced));
  }
  for (Case& what : cases) what.keeps_payload = settings.keeps_payload;
  return cases;
}

}  // namespace gantry::bench
