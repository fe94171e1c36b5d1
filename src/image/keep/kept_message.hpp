#pragma once  // keep/kept_message.hpp: an image as the message that a keeper sends: its tables,
              // then each partition that has bytes.

#include <gantry/channel.hpp>

#include "image/tables.hpp"

namespace gantry::image {

/// MessageInfo::type of such a message.
inline constexpr std::uint32_t kKeptImage = 0x474d4947;  // "GIMG"
/// The most partitions with bytes, beside the tables.
inline constexpr std::size_t kMostKept = kMaxSegments - 1;

/// What the first segment has.
[[nodiscard]] std::vector<std::byte> write_kept(const Image& image);

/// MessageInfo::type of what a keeper sends in place of an image that it cannot load: why, and how
/// to mend that. MessageInfo::user is the error's code; `busy`: the image comes when there is room.
inline constexpr std::uint32_t kKeptTrouble = 0x474d4954;  // "GMIT"
inline constexpr Bytes kMostTroubleBytes = 4096;           // more is not read
[[nodiscard]] std::vector<std::byte> write_trouble(const Error& why);
/// Reads a private copy of such a message.
[[nodiscard]] Error parse_trouble(std::uint64_t code, std::string_view text);

struct KeptTables {
  ImageDigest digest;
  Tables tables;
};
/// Reads a private copy of the first segment; `name` is for errors. Errors: `peer_misbehaved`.
[[nodiscard]] Result<KeptTables> parse_kept(const std::string& name, ConstByteSpan bytes);

}  // namespace gantry::image
