#pragma once  // messages.hpp: the messages between the stages, and how a receiver checks them.

#include <array>
#include <cstring>
#include <gantry/types.hpp>
#include <type_traits>
#include <vector>

namespace vision {

using gantry::Bytes;
using gantry::ByteSpan;
using gantry::ConstByteSpan;
using gantry::Result;

inline constexpr std::uint32_t kTileSide = 224;  ///< What most image models take.
inline constexpr std::uint32_t kGridSide = 4;    ///< Tiles of a frame along either side.
inline constexpr std::uint32_t kTilesPerFrame = kGridSide * kGridSide;
inline constexpr std::uint32_t kBatchTiles = 256;
inline constexpr std::uint32_t kChannels = 3;
inline constexpr std::uint32_t kMaxVideoSide = 16384;  ///< Pixels; of the video itself.
inline constexpr std::uint32_t kMaxFrameSide = 768;    ///< Pixels; of the frame that is tiled.
inline constexpr std::uint32_t kMaxPeople = 4096;      ///< In the results of one batch.

inline constexpr Bytes kTilePixels = Bytes{kTileSide} * kTileSide;
inline constexpr Bytes kTileValues = kTilePixels * kChannels;
inline constexpr Bytes kTensorOffset = 4096;  ///< Of the tensor within a batch message.

// ---- decode -> batch: one frame, then height x width x BGR8 ---------------------------------

struct FrameHeader {
  std::uint32_t magic = 0x4d415246;  // "FRAM"
  std::uint32_t frame = 0;           ///< Its number in the video, from 0.
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

// ---- batch -> detect: which tiles, then tiles x RGB planes of fp32 or bf16 -------------------

struct TilePlace {
  std::uint32_t frame = 0;
  std::uint16_t x = 0;  ///< Left edge in the frame, pixels.
  std::uint16_t y = 0;
};

struct BatchHeader {
  std::uint32_t magic = 0x48435442;  // "BTCH"
  std::uint32_t tiles = 0;           ///< At most kBatchTiles; the tiles of a frame are neighbours.
  std::uint32_t frame_width = 0;     ///< Of the frames the tiles were cut from.
  std::uint32_t frame_height = 0;
  gantry::DataType type = gantry::types::f32;  ///< Of the values: f32 or bf16.
  std::array<TilePlace, kBatchTiles> places{};
};

// ---- detect -> sheet: TileResult[], Person[], TilePlace[] and as many BGR8 tiles -------------

struct TileResult {
  static constexpr std::int32_t kNotInspected = -1;
  TilePlace place;
  std::array<float, kChannels> mean{};       ///< R, G, B; 0 to 255.
  std::array<float, kChannels> deviation{};  ///< Standard deviation, same unit.
  float sharpness = 0;                       ///< Mean absolute horizontal step, same unit.
  std::int32_t people = kNotInspected;       ///< Each person counts in one tile only.
};

struct Person {
  std::uint32_t frame = 0;
  float x = 0;  ///< Box in the frame, pixels.
  float y = 0;
  float width = 0;
  float height = 0;
  float score = 0;  ///< Distance from the detector's decision plane.
};

struct ResultHeader {
  std::uint32_t magic = 0x544c5352;  // "RSLT"
  std::uint32_t tiles = 0;
  std::uint32_t people = 0;
  std::uint32_t inspected = 0;  ///< Tiles whose pixels follow.
  std::uint32_t frame_width = 0;
  std::uint32_t frame_height = 0;
};

static_assert(sizeof(FrameHeader) == 16 && sizeof(TilePlace) == 8);
static_assert(sizeof(BatchHeader) == 20 + 8 * kBatchTiles && sizeof(BatchHeader) <= kTensorOffset);
static_assert(sizeof(TileResult) == 40 && sizeof(Person) == 24 && sizeof(ResultHeader) == 24);

/// Of a tile whose values have that type.
[[nodiscard]] constexpr Bytes tile_bytes(gantry::DataType type) noexcept {
  return kTileValues * type.bits / 8;
}

// ---- received, checked ----------------------------------------------------------------------
// Headers and tables are copies: the sender still owns the memory of a message. Pixels and
// tensors are views into it, valid as long as the message; any bit pattern there is harmless.

struct FrameView {
  FrameHeader header;
  ConstByteSpan pixels;
};

struct BatchView {
  BatchHeader header;
  ConstByteSpan tensor;

  [[nodiscard]] ConstByteSpan tile(std::size_t index) const {
    const Bytes size = tile_bytes(header.type);
    return tensor.subspan(index * size, size);
  }
};

struct ResultView {
  ResultHeader header;
  std::vector<TileResult> tiles;
  std::vector<Person> people;
  std::vector<TilePlace> inspected;
  ConstByteSpan pixels;

  [[nodiscard]] ConstByteSpan tile(std::size_t index) const {
    return pixels.subspan(index * kTileValues, kTileValues);
  }
};

/// Errors: `peer_misbehaved` when the message is not what its header says.
[[nodiscard]] Result<FrameView> parse_frame(ConstByteSpan message);
[[nodiscard]] Result<BatchView> parse_batch(ConstByteSpan message);
[[nodiscard]] Result<ResultView> parse_result(ConstByteSpan message);

[[nodiscard]] Bytes frame_bytes(const FrameHeader& header) noexcept;
[[nodiscard]] Bytes batch_bytes(const BatchHeader& header) noexcept;
[[nodiscard]] Bytes result_bytes(const ResultHeader& header) noexcept;

/// Copies plain values to the front of `to`, which must have room; returns what is left of it.
template <class T>
ByteSpan put(ByteSpan to, std::span<const T> values) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  if (!values.empty()) std::memcpy(to.data(), values.data(), values.size_bytes());
  return to.subspan(values.size_bytes());
}

template <class T>
ByteSpan put(ByteSpan to, const T& value) noexcept {
  return put(to, std::span<const T>(&value, 1));
}

}  // namespace vision
