#pragma once  // remote/listing.hpp: how the channels of another host stand.

#include <gantry/runtime.hpp>

#include "net/remote/admission.hpp"

namespace gantry {

/// Nobody reads a longer answer.
inline constexpr Bytes kMostListingBytes = Bytes{16} << 20;

/// The channels' status as bytes between hosts; those that no longer fit are left out.
/// docs/formats/remote.md
[[nodiscard]] std::vector<std::byte> encode_listing(const std::vector<ChannelStatus>& channels);
/// Trusts nothing in `bytes`. Errors: `peer_misbehaved`.
[[nodiscard]] Result<std::vector<ChannelStatus>> decode_listing(ConstByteSpan bytes);

/// The bridge's part, behind the admission of a caller that looks.
[[nodiscard]] Result<void> send_listing(int socket, const std::string& directory,
                                        Deadline deadline);

}  // namespace gantry
