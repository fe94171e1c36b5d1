#pragma once  // bench/memory/transfer_source.hpp: what is transferred from where it lies: blocks of
              // one's own, or received messages.

#include <chrono>
#include <gantry/gantry.hpp>
#include <optional>
#include <string>
#include <vector>

#include "../support/system/posix.hpp"

namespace gantry::bench {

inline constexpr std::string_view kOwnBlock = "gantry/own-block";
inline constexpr std::string_view kOwnByAddress = "gantry/own-block-by-address";  ///< Without key.
inline constexpr std::string_view kReceivedMessage = "gantry/received-message";

/// Places that are transferred in turn, each with its key if the registrar gives one. A message is
/// received before, by a channel within the process, and held: what is timed is the look for the
/// key and the transfer. Blocks come from a pool like the one that messages lie in. First and last
/// word of each place are its number, from 1.
class TransferSource {
 public:
  TransferSource() = default;
  TransferSource(const TransferSource&) = delete;
  TransferSource& operator=(const TransferSource&) = delete;
  ~TransferSource();

  /// `subject`: one of those above. `directory`: for the channel's socket.
  [[nodiscard]] Result<void> open(std::string_view subject, Bytes bytes,
                                  std::shared_ptr<Registrar> registrar,
                                  const std::string& directory);
  [[nodiscard]] bool is_open() const noexcept { return bytes_ != 0; }

  /// What one of `trips` transfers takes, in ns. `transfer(ConstByteSpan, const DeviceKey*)` gives
  /// a Result<void>; without a key it uses the address.
  template <class Transfer>
  [[nodiscard]] Result<double> time(std::uint64_t trips, Transfer transfer) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t trip = 0; trip < trips; ++trip) {
      turn_ = (turn_ + 1) % kPlaces;
      const auto key = key_of_turn();
      if (!key) return Unexpected(key.error());
      const auto done = transfer(bytes_of_turn(), *key ? &**key : nullptr);
      if (!done) return Unexpected(done.error());
    }
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::nano>(end - begin).count() /
           static_cast<double>(trips);
  }

 private:
  static constexpr std::size_t kPlaces = 4;

  [[nodiscard]] Result<void> open_own();
  [[nodiscard]] Result<void> open_received(const std::string& directory);
  [[nodiscard]] Result<std::optional<DeviceKey>> key_of_turn() const;
  [[nodiscard]] ConstByteSpan bytes_of_turn() const;

  Bytes bytes_ = 0;
  bool is_by_address_ = false;
  std::size_t turn_ = 0;
  std::shared_ptr<Registrar> registrar_;
  std::string directory_;  // of our own; removed at the end
  std::optional<Runtime> runtime_;
  std::optional<Producer> out_;
  std::optional<Consumer> in_;
  std::vector<Message> messages_;
  std::vector<Block> blocks_;
};

}  // namespace gantry::bench
