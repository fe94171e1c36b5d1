#pragma once  // channel/wire/end_name.hpp: whose an end is, in shared memory.

#include <array>
#include <cstdint>
#include <gantry/channel.hpp>

namespace gantry {

/// An EndName in a page of its end. Constant from before the page is shared; texts end with a zero.
struct WireName {
  using Text = std::array<char, EndName::kMostBytes + 1>;
  Text host;
  Text command;
  Text stage;
  std::uint32_t replica;
  std::uint32_t replicas;
};
static_assert(sizeof(WireName) == 200);

/// Whose an end with these options is.
[[nodiscard]] EndName name_of(const EndOptions& options);
[[nodiscard]] WireName encode_name(const EndName& name) noexcept;
/// Copies before it looks: the page may be another process's, and may hold anything. Control
/// characters become '?', since the texts go to terminals.
[[nodiscard]] EndName decode_name(const WireName& page);

}  // namespace gantry
