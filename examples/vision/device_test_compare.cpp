// device_test_compare: are these the tiles that the CPU's loop makes of the device test's frames?
#include <cstdio>

#include "device_test_frames.hpp"
#include "stage.hpp"
#include "tiles.hpp"

namespace vision {
namespace {

constexpr Program kProgram{"device_test_compare", "",
                           "Compares each tile of the input 'batches', byte by byte, with what "
                           "Planes::write_tile() makes.",
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
    const float* values;  ///< Until the next is asked for.
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
    return Tile{header.places[index], frame, view_.tile(index)};
  }

 private:
  gantry::StageInput input_;
  gantry::Message message_;
  BatchView view_;
  std::uint32_t next_ = 0;
};

Result<void> compare(const TilePlace& wanted, const Planes& planes, const Tiles::Tile& tile) {
  const auto name = "frame " + std::to_string(wanted.frame) + ", tile at " +
                    std::to_string(wanted.x) + "," + std::to_string(wanted.y);
  if (tile.frame != planes.size() || std::memcmp(&tile.place, &wanted, sizeof wanted) != 0)
    return differ(name + ": another one came");
  std::vector<float> values(kTileValues);
  planes.write_tile(wanted, values.data());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::memcmp(&tile.values[i], &values[i], sizeof(float)) != 0)
      return differ(name + ": value " + std::to_string(i) + " is " +
                    std::to_string(tile.values[i]) + ", not " + std::to_string(values[i]));
  return {};
}

Result<std::uint32_t> compare_all(Tiles& tiles) {
  std::uint32_t compared = 0;
  Result<void> same;
  for_each_test_frame([&](std::uint32_t number, const cv::Mat& picture) {
    const Planes planes(picture);
    for (const auto& place : tile_grid(number, planes.size())) {
      const auto tile = tiles.next();
      same = tile ? compare(place, planes, *tile) : failed(tile);
      if (!same) return false;
      ++compared;
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
  std::fprintf(stderr, "device_test_compare: %u tiles are the same\n", *compared);
  return {};
}

}  // namespace
}  // namespace vision

int main(int argc, char** argv) {
  return vision::stage_main(
      vision::kProgram, argc, argv, [](auto) { return gantry::Result<vision::Options>(); },
      vision::run);
}
