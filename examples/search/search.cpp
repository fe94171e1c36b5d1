// search: the nearest of many descriptors that another process holds, in planes and by a scan.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <gantry/decision.hpp>
#include <gantry/stage.hpp>

#include "program.hpp"
#include "scan.hpp"

namespace search {
namespace {

constexpr Program kProgram{
    "search", "NEAREST",
    "Finds the NEAREST descriptors to each of the input 'queries': in the planes of the input\n"
    "'planes', and by a scan of the same descriptors in the input 'rows'. Prints how long either\n"
    "takes, and whether both find the same.",
    1};
constexpr std::size_t kMostNearest = 1000;
using Clock = std::chrono::steady_clock;

/// What is searched: messages in memory of the process that made them.
struct Descriptors {
  gantry::Message planes, rows;
  gantry::PlanedElements elements;

  [[nodiscard]] gantry::ConstByteSpan in_planes() const { return planes.segment(0).bytes; }
  [[nodiscard]] std::span<const float> dense() const {
    return {reinterpret_cast<const float*>(rows.bytes().data()),
            rows.bytes().size() / sizeof(float)};
  }
};

Result<gantry::Message> receive(const char* name) {
  auto input = gantry::stage_input(name);
  if (!input) return failed(input);
  return input->receive();
}

Result<Descriptors> receive_descriptors() {
  auto planes = receive("planes");
  if (!planes) return failed(planes);
  auto rows = receive("rows");
  if (!rows) return failed(rows);
  const auto count = static_cast<std::int64_t>(rows->bytes().size() / sizeof(float));
  Descriptors all{std::move(*planes), std::move(*rows), {gantry::types::f32, count, kPlanes}};
  const auto bytes = all.elements.bytes();
  if (!bytes) return failed(bytes);
  if (count % kWidth != 0 || all.planes.segments() != 1 || all.in_planes().size() != *bytes)
    return refuse("planes: they are not of the rows", "run `describe` of the same version");
  return all;
}

// Pages are mapped when they are met first, which is part of neither.
void touch(gantry::ConstByteSpan bytes) {
  constexpr std::size_t kPage = 4096;
  unsigned sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kPage)
    sum += std::to_integer<unsigned>(bytes[at]);
  [[maybe_unused]] volatile unsigned kept = sum;
}

/// A row's distance by its digits in the planes.
double distance_in_planes(const Descriptors& all, std::size_t row, const float* query) {
  float values[kWidth];
  for (std::size_t i = 0; i < kWidth; ++i) {
    auto bounds = bounds_of(all.in_planes(), all.elements, {row * kWidth + i, 1}, 4);
    values[i] = static_cast<float>(gantry::must(std::move(bounds)).lo);
  }
  return distance_of(values, query);
}

struct Figures {
  std::vector<double> scan_ms, search_ms, ratios;
  std::size_t equal = 0;
  double read = 0;  // bytes of the planes, of those of fp32

  Result<void> take(const Descriptors& all, const float* query, std::size_t nearest) {
    const auto began = Clock::now();
    const std::vector<Neighbour> right = scan(all.dense(), query, nearest);
    const auto middle = Clock::now();
    const auto decided = decide(all.in_planes(), all.elements,
                                gantry::Decision::nearest({query, query + kWidth}, nearest),
                                {.bounds = gantry::BoundsUse::trusted});
    const auto ended = Clock::now();
    if (!decided) return failed(decided);
    using Milliseconds = std::chrono::duration<double, std::milli>;
    scan_ms.push_back(Milliseconds(middle - began).count());
    search_ms.push_back(Milliseconds(ended - middle).count());
    ratios.push_back(scan_ms.back() / search_ms.back());
    read +=
        static_cast<double>(decided->bytes_read) / static_cast<double>(all.dense().size_bytes());
    std::vector<Neighbour> found;
    for (const std::size_t row : decided->indices)
      found.push_back({distance_in_planes(all, row, query), row});
    equal += decided->proven && found == right ? 1 : 0;
    return {};
  }
};

void print(const char* name, std::vector<double> values, const char* unit) {
  std::sort(values.begin(), values.end());
  std::printf("%-7s %.2f%s, median (%.2f to %.2f)\n", name, values[values.size() / 2], unit,
              values.front(), values.back());
}

Result<void> run(Arguments arguments) {
  const auto nearest = parse_number(arguments[0], "NEAREST", kMostNearest);
  if (!nearest) return failed(nearest);
  const auto all = receive_descriptors();
  if (!all) return failed(all);
  const auto queries = receive("queries");
  if (!queries) return failed(queries);
  const std::size_t rows = all->dense().size() / kWidth;
  if (*nearest > rows)
    return refuse("NEAREST: " + std::to_string(*nearest) + " of " + std::to_string(rows) + " rows",
                  "");
  touch(all->in_planes());
  touch(all->rows.bytes());

  const std::size_t count = queries->bytes().size() / sizeof(float) / kWidth;
  Figures figures;
  for (std::size_t i = 0; i < count; ++i) {
    float query[kWidth];
    std::memcpy(query, queries->bytes().data() + i * sizeof query, sizeof query);
    if (auto taken = figures.take(*all, query, *nearest); !taken) return taken;
  }
  std::printf("%zu descriptors of %zu fp32, the %zu nearest to each of %zu queries\n", rows, kWidth,
              *nearest, count);
  print("scan", figures.scan_ms, " ms");
  print("search", figures.search_ms, " ms");
  std::printf("        reads %.1f %% of the bytes of fp32\n",
              100 * figures.read / static_cast<double>(count));
  print("ratio", figures.ratios, "");
  std::printf("equal   %zu of %zu: rows, order and distances\n", figures.equal, count);
  if (figures.equal == count) return {};
  return tl::unexpected(gantry::Error{gantry::Code::system, "search and scan differ", ""});
}

}  // namespace
}  // namespace search

int main(int argc, char** argv) {
  return search::run_program(search::kProgram, argc, argv, search::run);
}
