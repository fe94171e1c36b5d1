#pragma once  // channel/naming/access.hpp: who may be at the other end of a channel.

#include <gantry/channel.hpp>

#include "core/channel/wire/protocol.hpp"

namespace gantry {

/// Errors: `invalid_argument` for a token that is too long or a mode beyond 0777.
[[nodiscard]] Result<void> check_access(const Access& access);

/// For whoever takes the name. Errors: `invalid_argument` when the lists name others, and the mode
/// of the socket or of its folder keeps them out.
[[nodiscard]] Result<void> check_reach(const std::string& directory, const std::string& name,
                                       const Access& access);
/// Checks that the process at the other end of `socket` may be there: its user is ours, root, or
/// listed. Errors: `permission_denied`, naming its user.
[[nodiscard]] Result<void> admit_peer(int socket, const Access& access);

/// Compares in constant time.
[[nodiscard]] bool is_same_token(const Access& access, const WireToken& theirs) noexcept;
[[nodiscard]] WireToken wire_token(const Access& access) noexcept;

[[nodiscard]] FileAccess file_access(const Access& access);

}  // namespace gantry
