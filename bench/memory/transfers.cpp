#include "transfers.hpp"

#include <fmt/format.h>

#include "../support/program/sizes.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kMemory = Bytes{1} << 30;  // slabs, buffers and a file in memory, generously
// What registering costs is little next to a transfer's own ups and downs.
constexpr std::chrono::milliseconds kRoundTime{60};

}  // namespace

std::vector<Contest> transfer_contests(const Settings& settings, std::string_view name,
                                       const std::vector<std::string_view>& subjects,
                                       const OpenTransfer& open) {
  std::vector<Contest> contests;
  for (const Bytes bytes : kTransferBytes) {
    const std::string label = fmt::format("transfer/{}/{}", name, format_size(bytes));
    Contest contest{.label = label,
                    .contestants = {},
                    .rounds = settings.common.rounds,
                    .round_time = kRoundTime,
                    .memory_bytes = kMemory};
    const auto size = static_cast<double>(bytes);
    for (const std::string_view subject : subjects)
      contest.contestants.push_back(
          {.case_name = label,
           .subject = std::string(subject),
           .bytes = bytes,
           .open = [open, subject, bytes] { return open(subject, bytes); },
           .readings = {{}, {kThroughput, "GB/s", [size](double ns) { return size / ns; }}}});
    contests.push_back(std::move(contest));
  }
  return contests;
}

Result<void> TransferMemory::open(std::string_view subject, Bytes bytes,
                                  std::shared_ptr<Registrar> registrar) {
  PoolOptions options;
  options.region.shareable = false;
  if (subject == kPoolReuse) options.registrars = {registrar};
  auto pool = Pool::create(options);
  if (!pool) return Unexpected(pool.error());
  pool_ = std::move(*pool);
  subject_ = subject;
  bytes_ = bytes;
  registrar_ = std::move(registrar);
  return {};
}

Result<std::optional<DeviceKey>> TransferMemory::key_of(const Block& block,
                                                        Registration& registration) const {
  if (subject_ == kUnregistered) return std::optional<DeviceKey>();
  if (subject_ == kPoolReuse) return block.key_for(*registrar_);
  auto made = registrar_->register_memory(block.bytes());
  if (!made) return Unexpected(made.error());
  registration = std::move(*made);
  return registration.key();
}

OpenTransfer no_transfer(std::string reason) {
  return [reason = std::move(reason)](std::string_view, Bytes) -> Result<std::unique_ptr<Runner>> {
    return Unexpected({Code::unsupported, reason, ""});
  };
}

}  // namespace gantry::bench
