#include <gantry/channel/early_message.hpp>
#include <utility>

#include "base/result.hpp"

namespace gantry {

EarlyMessage::EarlyMessage(EarlyMessage&& other) noexcept
    : sender_(std::move(other.sender_)),
      token_(other.token_),
      size_(std::exchange(other.size_, 0)),
      landed_(std::exchange(other.landed_, 0)) {}

EarlyMessage& EarlyMessage::operator=(EarlyMessage&& other) noexcept {
  if (this == &other) return *this;
  give_up();
  sender_ = std::move(other.sender_);
  token_ = other.token_;
  size_ = std::exchange(other.size_, 0);
  landed_ = std::exchange(other.landed_, 0);
  return *this;
}

EarlyMessage::~EarlyMessage() {
  give_up();
}

void EarlyMessage::give_up() noexcept {
  if (sender_) sender_->give_up(token_, landed_);
  sender_.reset();
}

Result<void> EarlyMessage::land(Bytes bytes) {
  if (bytes < landed_ || bytes > size_)
    return fail(Code::invalid_argument,
                fmt::format("{} bytes landed, of a message of {} of which {} had landed", bytes,
                            size_, landed_));
  if (bytes == landed_ && bytes != size_) return {};
  landed_ = bytes;
  if (sender_) sender_->land(token_, bytes, bytes == size_);
  if (bytes == size_) sender_.reset();
  return {};
}

}  // namespace gantry
