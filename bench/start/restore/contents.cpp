#include "contents.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "../../support/system/interrupt.hpp"
#include "../files.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kContentSeed = 22;
constexpr std::size_t kLooks = std::size_t{1} << 16;  // for Ctrl-C, once in so many entries

struct Bucket {
  std::uint64_t key;  // 0: it is empty
  std::uint64_t row;
};

/// Load 0.6, linear probing; rows are numbered as they came.
Result<void> fill_table(std::span<Bucket> table, int interrupt_descriptor) {
  std::mt19937_64 random(kContentSeed);
  for (std::size_t row = 0; row < table.size() * 6 / 10; ++row) {
    if (row % kLooks == 0)
      if (auto going = check_interrupt(interrupt_descriptor); !going) return going;
    const std::uint64_t key = random() | 1;
    const std::uint64_t hash = key * 0x9e3779b97f4a7c15;
    std::size_t at = (hash >> 32) * table.size() >> 32;
    while (table[at].key != 0) at = (at + 1) % table.size();
    table[at] = {key, row};
  }
  return {};
}

/// Strings one after the other, each ended by 0.
Result<void> fill_strings(ByteSpan area, int interrupt_descriptor) {
  constexpr std::array kNames = {"anna",  "boris", "chen", "dora",  "emil",  "farid",
                                 "greta", "hugo",  "ines", "jonas", "karim", "lena",
                                 "maria", "nils",  "olga", "paul"};
  constexpr std::array kPlaces = {"berlin", "delhi",  "lagos", "lima",
                                  "osaka",  "quebec", "turin", "warsaw"};
  std::mt19937_64 random(kContentSeed + 1);
  std::string text;
  for (std::size_t count = 0; !area.empty(); ++count) {
    if (count % kLooks == 0)
      if (auto going = check_interrupt(interrupt_descriptor); !going) return going;
    const std::uint64_t drawn = random();
    text = fmt::format("{}.{}{}@{}.example.org", kNames[drawn % 16], kNames[(drawn >> 4) % 16],
                       (drawn >> 8) % 10'000, kPlaces[(drawn >> 32) % 8]);
    const Bytes bytes = std::min(text.size() + 1, area.size());
    std::memcpy(area.data(), text.c_str(), bytes);
    area = area.subspan(bytes);
  }
  return {};
}

/// One colour of a picture as a camera has it: a slope, shapes of one brightness, and noise.
class Plane {
 public:
  static constexpr std::size_t kSide = 224;
  static constexpr Bytes kBytes = kSide * kSide * sizeof(float);

  /// `normalised` has the number for each of 256 values.
  void fill(ByteSpan plane, std::span<const float> normalised, std::uint64_t seed) {
    random_.seed(seed);
    const int base = draw(160), across = draw(80) - 40, down = draw(80) - 40;
    for (std::size_t y = 0; y < kSide; ++y)
      for (std::size_t x = 0; x < kSide; ++x)
        light_[y * kSide + x] =
            48 + base +
            (static_cast<int>(x) * across + static_cast<int>(y) * down) / static_cast<int>(kSide);
    for (int shape = 0; shape < 12; ++shape) draw_shape();
    for (std::size_t i = 0; i < light_.size(); ++i) {
      const auto drawn = static_cast<std::uint32_t>(random_());
      const int noise = static_cast<int>(drawn & 3) + static_cast<int>(drawn >> 2 & 3) - 3;
      const float value =
          normalised[static_cast<std::size_t>(std::clamp(light_[i] + noise, 0, 255))];
      std::memcpy(plane.data() + i * sizeof value, &value, sizeof value);
    }
  }

 private:
  int draw(std::uint64_t most) { return static_cast<int>(random_() % most); }
  void draw_shape() {
    const int light = draw(256), radius = 8 + draw(48), x = draw(kSide), y = draw(kSide);
    for (int v = std::max(0, y - radius); v < std::min<int>(kSide, y + radius); ++v)
      for (int u = std::max(0, x - radius); u < std::min<int>(kSide, x + radius); ++u)
        if ((u - x) * (u - x) + (v - y) * (v - y) < radius * radius)
          light_[static_cast<std::size_t>(v) * kSide + static_cast<std::size_t>(u)] = light;
  }

  std::mt19937_64 random_;
  std::array<int, kSide * kSide> light_{};
};

}  // namespace

Result<Snapshot> make_zeros(Bytes bytes) {
  const std::array regions{SnapshotRegion{kMemory, bytes}};
  return Snapshot::create(regions);
}

// Three quarters of it are the table. Strings fill three quarters of theirs: memory that doubles
// when it is full is so on the average, and zero behind them.
Result<Snapshot> make_hash_index(const ContentOrder& order) {
  auto made = make_zeros(order.bytes);
  if (!made) return made;
  const ByteSpan memory = made->region(kMemory).value();
  const Bytes table = memory.size() / 4 * 3 / sizeof(Bucket) * sizeof(Bucket);
  const std::span buckets(reinterpret_cast<Bucket*>(memory.data()), table / sizeof(Bucket));
  if (auto filled = fill_table(buckets, order.interrupt_descriptor); !filled)
    return Unexpected(filled.error());
  const Bytes strings = (memory.size() - table) / 4 * 3;
  if (auto filled = fill_strings(memory.subspan(table, strings), order.interrupt_descriptor);
      !filled)
    return Unexpected(filled.error());
  return made;
}

Result<Snapshot> make_fp32_batch(const ContentOrder& order) {
  constexpr std::array kMeans = {0.485F, 0.456F, 0.406F}, kDeviations = {0.229F, 0.224F, 0.225F};
  std::array<std::array<float, 256>, 3> normalised{};
  for (std::size_t colour = 0; colour < 3; ++colour)
    for (std::size_t value = 0; value < 256; ++value)
      normalised[colour][value] =
          (static_cast<float>(value) / 255.0F - kMeans[colour]) / kDeviations[colour];
  auto made = make_zeros(order.bytes);
  if (!made) return made;
  const ByteSpan memory = made->region(kMemory).value();
  const auto plane = std::make_unique<Plane>();
  for (std::size_t i = 0; (i / 3 + 1) * 3 * Plane::kBytes <= memory.size(); ++i) {
    if (auto going = check_interrupt(order.interrupt_descriptor); !going)
      return Unexpected(going.error());
    plane->fill(memory.subspan(i * Plane::kBytes, Plane::kBytes), normalised[i % 3], i);
  }
  return made;
}

Result<Snapshot> make_guest(const ContentOrder& order) {
  const auto file = open_to_read(order.guest);
  if (!file) return Unexpected(file.error());
  struct stat facts{};
  if (::fstat(file->get(), &facts) != 0) return Unexpected(system_error(order.guest));
  auto made = make_zeros(static_cast<Bytes>(facts.st_size));
  if (!made) return made;
  const ByteSpan memory = made->region(kMemory).value();
  const auto read = read_at(*file, 0, memory.first(static_cast<Bytes>(facts.st_size)));
  if (!read) return Unexpected(read.error());
  return made;
}

}  // namespace gantry::bench
