#include "inspection.hpp"

#include <algorithm>

#include "statistics.hpp"
#include "tiles.hpp"

namespace vision {
namespace {

/// The neighbouring tiles of one frame.
struct FrameTiles {
  std::size_t first = 0;
  std::size_t count = 0;
};

std::vector<FrameTiles> frames_of(std::span<const TilePlace> places) {
  std::vector<FrameTiles> frames;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || places[i].frame != places[i - 1].frame) frames.push_back({i, 0});
    ++frames.back().count;
  }
  return frames;
}

/// `share` of `frames`, evenly spread from the first on; all when there are no more.
std::vector<FrameTiles> choose(const std::vector<FrameTiles>& frames, unsigned share) {
  if (share >= frames.size()) return frames;
  std::vector<FrameTiles> chosen;
  chosen.reserve(share);
  for (std::size_t i = 0; i < share; ++i) chosen.push_back(frames[i * frames.size() / share]);
  return chosen;
}

void take_pictures(const BatchView& batch, TileReader& tiles, const FrameTiles& frame,
                   Findings& findings) {
  for (auto i = frame.first; i < frame.first + frame.count; ++i) {
    findings.tiles[i].people = 0;
    findings.inspected.push_back(batch.header.places[i]);
    findings.pictures.push_back(tile_picture(tiles.tile(i)));
  }
}

float distance_squared(const TilePlace& place, const Person& person) {
  const float dx = static_cast<float>(place.x) + kTileSide / 2.0F - (person.x + person.width / 2);
  const float dy = static_cast<float>(place.y) + kTileSide / 2.0F - (person.y + person.height / 2);
  return dx * dx + dy * dy;
}

/// Tiles overlap; a person counts in the one whose centre is nearest.
void count_in_nearest_tile(const Person& person, std::vector<TileResult>& tiles) {
  TileResult* nearest = nullptr;
  for (auto& tile : tiles)
    if (tile.place.frame == person.frame &&
        (nearest == nullptr ||
         distance_squared(tile.place, person) < distance_squared(nearest->place, person)))
      nearest = &tile;
  if (nearest != nullptr) ++nearest->people;
}

cv::Size frame_size(const ResultHeader& header) {
  return {static_cast<int>(header.frame_width), static_cast<int>(header.frame_height)};
}

}  // namespace

Result<Findings> survey(const BatchView& batch, unsigned share) {
  auto tiles = TileReader::make(batch);
  if (!tiles) return tl::unexpected(tiles.error());
  Findings findings;
  const auto places = std::span(batch.header.places).first(batch.header.tiles);
  findings.tiles.resize(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    findings.tiles[i].place = places[i];
    measure_tile(tiles->tile(i), findings.tiles[i]);
  }
  for (const auto& frame : choose(frames_of(places), share))
    take_pictures(batch, *tiles, frame, findings);
  findings.header.tiles = batch.header.tiles;
  findings.header.inspected = static_cast<std::uint32_t>(findings.inspected.size());
  findings.header.frame_width = batch.header.frame_width;
  findings.header.frame_height = batch.header.frame_height;
  return findings;
}

void find_people(const PeopleDetector& detector, Findings& findings) {
  for (const auto& frame : frames_of(findings.inspected)) {
    std::vector<Person> windows;
    for (auto i = frame.first; i < frame.first + frame.count; ++i)
      detector.search(findings.pictures[i], findings.inspected[i], windows);
    const auto people = merge_people(std::move(windows), frame_size(findings.header));
    findings.people.insert(findings.people.end(), people.begin(), people.end());
  }
  if (findings.people.size() > kMaxPeople) findings.people.resize(kMaxPeople);
  for (const auto& person : findings.people) count_in_nearest_tile(person, findings.tiles);
  findings.header.people = static_cast<std::uint32_t>(findings.people.size());
}

void write(const Findings& findings, ByteSpan to) {
  to = put(to, findings.header);
  to = put(to, std::span(findings.tiles));
  to = put(to, std::span(findings.people));
  to = put(to, std::span(findings.inspected));
  for (const auto& picture : findings.pictures)
    to = put(to, std::span<const std::uint8_t>(picture.data, kTileValues));
}

}  // namespace vision
