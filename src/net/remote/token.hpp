#pragma once  // remote/token.hpp: the secret of a bridge, and proofs of knowing it.

#include <array>
#include <gantry/types.hpp>
#include <string>

namespace gantry {

inline constexpr std::size_t kLeastTokenBytes = 16;
inline constexpr std::size_t kMostTokenBytes = 64;

/// Errors: `invalid_argument`; `unsupported` in a build without libsodium.
[[nodiscard]] Result<void> check_token(std::string_view token);

/// `given`, or what $GANTRY_TOKEN_FILE holds. Errors: `permission_denied` when there is none.
[[nodiscard]] Result<std::string> token_or_file(const std::string& given);

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

/// Both need check_token() first.
[[nodiscard]] Nonce make_nonce();
/// HMAC-SHA-512/256 of all that was said, under a key made of the token. `role`: whose proof it is,
/// so that nobody's own proof can be sent back to it.
[[nodiscard]] Proof prove(std::string_view token, std::string_view role, const Nonce& bridge,
                          const Nonce& caller, ConstByteSpan said);
[[nodiscard]] bool is_same_proof(const Proof& one, const Proof& other) noexcept;

}  // namespace gantry
