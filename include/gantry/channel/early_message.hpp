#pragma once  // gantry/channel/early_message.hpp: a message that is sent before it is filled.

#include <gantry/types.hpp>
#include <memory>

namespace gantry {

namespace detail {
/// Whoever sent a message early. Private.
class EarlySender {
 public:
  EarlySender() = default;
  EarlySender(const EarlySender&) = delete;
  EarlySender& operator=(const EarlySender&) = delete;
  virtual ~EarlySender() = default;
  virtual void land(std::uint64_t token, Bytes bytes, bool is_last) noexcept = 0;
  virtual void give_up(std::uint64_t token, Bytes landed) noexcept = 0;
};
}  // namespace detail

/// A message that its sender still fills, from the front on, while readers see what is there.
/// Move-only; dropping it before all has landed gives the message up: its readers get `aborted`,
/// and Consumer::receive() passes over it. Used by the thread of its producer. An empty one has 0
/// bytes.
class GANTRY_API EarlyMessage {
 public:
  EarlyMessage() noexcept = default;
  EarlyMessage(EarlyMessage&&) noexcept;
  EarlyMessage& operator=(EarlyMessage&&) noexcept;
  ~EarlyMessage();

  [[nodiscard]] Bytes size() const noexcept { return size_; }  ///< Size of the whole payload.
  /// Bytes from the front that have been declared as landed.
  [[nodiscard]] Bytes landed() const noexcept { return landed_; }
  /// Says that the first `bytes` of the payload, its segments in their order, are what they will
  /// be: readers get them. When that is all of it, the message is sent. Errors:
  /// `invalid_argument` for fewer than before, or for more than there are.
  [[nodiscard]] Result<void> land(Bytes bytes);

  // For Producer:
  EarlyMessage(std::shared_ptr<detail::EarlySender> sender, std::uint64_t token,
               Bytes size) noexcept
      : sender_(std::move(sender)), token_(token), size_(size) {}

 private:
  void give_up() noexcept;
  std::shared_ptr<detail::EarlySender> sender_;  // null: it is done
  std::uint64_t token_ = 0;
  Bytes size_ = 0;
  Bytes landed_ = 0;
};

}  // namespace gantry
