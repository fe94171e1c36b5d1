#pragma once  // bench/memory/transfers.hpp: what comparisons of real transfers share.

#include <functional>
#include <gantry/memory.hpp>
#include <optional>
#include <string>

#include "settings.hpp"

namespace gantry::bench {

inline constexpr std::string_view kPoolReuse = "gantry/pool-reuse";
inline constexpr std::string_view kUnregistered = "unregistered";
inline constexpr std::string_view kRegisterEachTransfer = "register-each-transfer";
inline constexpr Bytes kTransferBytes[] = {Bytes{64} << 10, Bytes{1} << 20, Bytes{8} << 20};

/// A contest called transfer/`name`/SIZE for each size; `open` is told the subject and the size.
using OpenTransfer =
    std::function<Result<std::unique_ptr<Runner>>(std::string_view subject, Bytes bytes)>;
[[nodiscard]] std::vector<Contest> transfer_contests(const Settings& settings,
                                                     std::string_view name,
                                                     const std::vector<std::string_view>& subjects,
                                                     const OpenTransfer& open);

/// Where all subjects' blocks come from, so that they differ in nothing but registration: private
/// memory, in huge pages where there are any, of which luck of placement is not a part.
[[nodiscard]] Result<std::optional<Pool>> transfer_pool(
    std::vector<std::shared_ptr<Registrar>> registrars);

/// Why there are no transfers of a kind, as contestants that give up with it.
[[nodiscard]] OpenTransfer no_transfer(std::string reason);

}  // namespace gantry::bench
