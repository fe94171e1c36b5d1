// device_test_compare: are these the tiles that a plain loop makes of the device test's frames?
#include <bit>
#include <cstdio>

#include "device_test_frames.hpp"
#include "stage.hpp"
#include "tiles.hpp"

namespace vision {
namespace {

constexpr Program kProgram{"device_test_compare", "",
                           "Compares each tile of the input 'batches', byte by byte, with what "
                           "a plain loop makes.",
                           0, 0};

struct Options {};

auto differ(const std::string& what) {
  return tl::unexpected(gantry::Error{gantry::Code::peer_misbehaved, what, ""});
}

/// The tiles of the batches, one after another.
class Tiles {
 public:
  explicit Tiles(gantry::StageInput input) : input_(std::move(input)) {}

  struct Tile {
    TilePlace place;
    cv::Size frame;
    gantry::DataType type;
    ConstByteSpan values;  ///< Until the next is asked for.
  };
  /// Errors: `closed` after the last.
  Result<Tile> next() {
    while (next_ == view_.header.tiles) {
      message_ = {};
      auto message = input_.receive();
      if (!message) return failed(message);
      message_ = *std::move(message);
      auto view = parse_batch(message_.bytes());
      if (!view) return failed(view);
      view_ = *view;
      next_ = 0;
    }
    const auto& header = view_.header;
    const cv::Size frame(static_cast<int>(header.frame_width),
                         static_cast<int>(header.frame_height));
    const auto index = next_++;
    return Tile{header.places[index], frame, header.type, view_.tile(index)};
  }

 private:
  gantry::StageInput input_;
  gantry::Message message_;
  BatchView view_;
  std::uint32_t next_ = 0;
};

/// A value of a tile, rounded after each of the two operations (CMakeLists.txt forbids to fuse
/// them): as a plan says, and as the loop did that stood in the batch stage before there were
/// plans.
float plain_value(const cv::Mat& picture, const TilePlace& place, std::size_t index) {
  const auto rgb = index / kTilePixels;
  const auto y = static_cast<int>(place.y + index % kTilePixels / kTileSide);
  const auto x = static_cast<int>(place.x + index % kTileSide);
  const auto [scale, offset] = tile_scale(rgb);
  return static_cast<float>(picture.ptr(y, x)[kChannels - 1 - rgb]) * scale + offset;
}

/// As it lies in a batch: the low half of a bf16 is rounded off, to the nearest even.
std::uint32_t plain_bits(float value, gantry::DataType type) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return type == gantry::types::f32 ? bits : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

float value_of(std::uint32_t bits, gantry::DataType type) {
  return std::bit_cast<float>(type == gantry::types::f32 ? bits : bits << 16);
}

Result<void> compare(const TilePlace& wanted, const cv::Mat& picture, const Tiles::Tile& tile) {
  const auto name = "frame " + std::to_string(wanted.frame) + ", tile at " +
                    std::to_string(wanted.x) + "," + std::to_string(wanted.y);
  if (tile.frame != picture.size() || std::memcmp(&tile.place, &wanted, sizeof wanted) != 0)
    return differ(name + ": another one came");
  const std::size_t bytes = tile.type.bits / 8;
  for (std::size_t i = 0; i < kTileValues; ++i) {
    std::uint32_t bits = 0;  // its lowest bytes are the first, as the values' are
    std::memcpy(&bits, tile.values.data() + i * bytes, bytes);
    const auto expected = plain_bits(plain_value(picture, wanted, i), tile.type);
    if (bits != expected)
      return differ(name + ": value " + std::to_string(i) + " is " +
                    std::to_string(value_of(bits, tile.type)) + ", not " +
                    std::to_string(value_of(expected, tile.type)));
  }
  return {};
}

struct Compared {
  std::uint32_t tiles = 0;
  std::string type;
};

Result<Compared> compare_all(Tiles& tiles) {
  Compared compared;
  Result<void> same;
  for_each_test_frame([&](std::uint32_t number, const cv::Mat& frame) {
    const cv::Mat picture = fitted(frame);
    for (const auto& place : tile_grid(number, picture.size())) {
      const auto tile = tiles.next();
      same = tile ? compare(place, picture, *tile) : failed(tile);
      if (same) compared.type = to_string(tile->type);
      if (!same) return false;
      ++compared.tiles;
    }
    return true;
  });
  if (!same) return failed(same);
  if (tiles.next()) return differ("there are more tiles than there should be");
  return compared;
}

Result<void> run(const Options& /*none*/) {
  auto input = gantry::stage_input("batches");
  if (!input) return failed(input);
  Tiles tiles(std::move(*input));
  const auto compared = compare_all(tiles);
  if (!compared) return failed(compared);
  std::fprintf(stderr, "device_test_compare: %u tiles of %s are the same\n", compared->tiles,
               compared->type.c_str());
  return {};
}

}  // namespace
}  // namespace vision

int main(int argc, char** argv) {
  return vision::stage_main(
      vision::kProgram, argc, argv, [](auto) { return gantry::Result<vision::Options>(); },
      vision::run);
}
