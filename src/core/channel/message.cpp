#include <gantry/channel.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/base/enum_text.hpp"
#include "core/base/result.hpp"

// What is sent and received, and the names of its choices.
namespace gantry {

// ---- loans ---------------------------------------------------------------------------------

Loan::Loan(Loan&& other) noexcept
    : owner_(std::move(other.owner_)),
      token_(other.token_),
      bytes_(std::exchange(other.bytes_, {})) {}

Loan& Loan::operator=(Loan&& other) noexcept {
  if (this == &other) return *this;
  reset();
  owner_ = std::move(other.owner_);
  token_ = other.token_;
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

void Loan::forget() noexcept {
  owner_.reset();
  bytes_ = {};
}

void Loan::reset() noexcept {
  if (owner_) owner_->give_back(token_);
  forget();
}

// ---- drafts --------------------------------------------------------------------------------

Draft& Draft::copy(ConstByteSpan bytes, std::optional<Tensor> tensor) & {
  Part part;
  part.copied = part.bytes = bytes;
  part.tensor = tensor;
  parts_.push_back(std::move(part));
  return *this;
}

Draft& Draft::move(Block block, std::optional<Tensor> tensor) & {
  Part part;
  part.bytes = block.bytes();
  part.needs_size = block.is_of_container();
  part.block = std::move(block);
  part.moved = true;
  part.tensor = tensor;
  parts_.push_back(std::move(part));
  return *this;
}

// A size beyond the block is refused when it is sent.
Draft& Draft::move(Block block, Bytes bytes, std::optional<Tensor> tensor) & {
  move(std::move(block), tensor);
  Part& part = parts_.back();
  part.size = bytes;
  part.bytes = part.bytes.first(std::min(bytes, part.bytes.size()));
  return *this;
}

Draft Draft::forward(Message message) && {
  return std::move(forward(std::move(message)));
}

Draft& Draft::forward(Message message) & {
  const auto whole = std::make_shared<Message>(std::move(message));
  for (std::size_t i = 0; i < whole->segments(); ++i) {
    const Segment segment = whole->segment(i);
    Part part;
    part.forwarded = whole;
    part.bytes = segment.bytes;
    part.tensor = segment.tensor;
    parts_.push_back(std::move(part));
  }
  return *this;
}

Draft& Draft::as(As what) & {
  if (!parts_.empty()) parts_.back().as = std::move(what);
  return *this;
}

// ---- messages ------------------------------------------------------------------------------

Message& Message::operator=(Message&& other) noexcept {
  if (this == &other) return *this;
  release();
  owner_ = std::move(other.owner_);
  token_ = other.token_;
  info_ = other.info_;
  segments_ = std::move(other.segments_);
  is_small_ = std::exchange(other.is_small_, false);
  gives_back_ = std::exchange(other.gives_back_, true);
  view_ = std::exchange(other.view_, {});
  if (is_small_) small_ = other.small_;
  return *this;
}

bool Message::is_immutable() const {
  if (owner_ == nullptr) return true;
  for (std::size_t i = 0; i < segments(); ++i)
    if (!owner_->is_immutable(token_, segment(i).bytes)) return false;
  return true;
}

Result<std::optional<DeviceKey>> Message::key_for(const Registrar& registrar,
                                                  std::size_t index) const {
  if (owner_ == nullptr) return std::nullopt;
  const ConstByteSpan part = segments_ == nullptr ? view_ : (*segments_)[index].bytes;
  return owner_->key_for(token_, part, registrar);
}

void Message::release() noexcept {
  segments_.reset();
  if (owner_ && gives_back_) owner_->give_back(token_);
  owner_.reset();
  view_ = {};
  is_small_ = false;
  gives_back_ = true;
}

// ---- messages that are sent before they are whole ------------------------------------------

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

// ---- names ---------------------------------------------------------------------------------

std::string_view to_string(SendMode mode) noexcept {
  return text_in({"automatic", "whole", "pipelined", "streamed", "immutable"}, mode, "?");
}

std::string_view to_string(RemotePath path) noexcept {
  return text_in({"automatic", "stream", "fabric", "shared"}, path, "?");
}

std::string_view to_string(SlowConsumer policy) noexcept {
  return text_in({"block", "drop_newest", "disconnect", "drop_oldest"}, policy, "?");
}

}  // namespace gantry
