#pragma once  // bench/memory/transfers.hpp: what comparisons of real transfers share.

#include <chrono>
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

/// The memory that a subject transfers from or to, and when a device is told of it. All subjects'
/// blocks come from pools of private memory, in huge pages where there are any, so that they differ
/// in nothing but registration: luck of placement is not a part of it.
class TransferMemory {
 public:
  /// `subject`: one of those above.
  [[nodiscard]] Result<void> open(std::string_view subject, Bytes bytes,
                                  std::shared_ptr<Registrar> registrar);

  /// What one of `trips` transfers takes, in ns: each with a block and, unless the device is not to
  /// know it, its key. `transfer(ByteSpan, const DeviceKey*)` gives a Result<void>.
  template <class Transfer>
  [[nodiscard]] Result<double> time(std::uint64_t trips, Transfer transfer) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t trip = 0; trip < trips; ++trip) {
      const auto block = pool_->allocate(bytes_);
      if (!block) return Unexpected(block.error());
      Registration registration;  // until the transfer has ended
      const auto key = key_of(*block, registration);
      if (!key) return Unexpected(key.error());
      const auto done = transfer(block->bytes(), *key ? &**key : nullptr);
      if (!done) return Unexpected(done.error());
    }
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::nano>(end - begin).count() /
           static_cast<double>(trips);
  }

 private:
  [[nodiscard]] Result<std::optional<DeviceKey>> key_of(const Block& block,
                                                        Registration& registration) const;
  std::string_view subject_;
  Bytes bytes_ = 0;
  std::shared_ptr<Registrar> registrar_;
  std::optional<Pool> pool_;
};

/// Why there are no transfers of a kind, as contestants that give up with it.
[[nodiscard]] OpenTransfer no_transfer(std::string reason);

}  // namespace gantry::bench
