#include <gantry/channel.hpp>

#include <utility>

namespace gantry {

Loan& Loan::operator=(Loan&& other) noexcept {
  if (this == &other) return *this;
  reset();
  keeper_ = std::move(other.keeper_);
  token_ = other.token_;
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

void Loan::forget() noexcept {
  keeper_.reset();
  bytes_ = {};
}

void Loan::reset() noexcept {
  if (keeper_) keeper_->give_back(token_);
  forget();
}

Message& Message::operator=(Message&& other) noexcept {
  if (this == &other) return *this;
  release();
  keeper_ = std::move(other.keeper_);
  token_ = other.token_;
  sequence_ = other.sequence_;
  is_small_ = std::exchange(other.is_small_, false);
  view_ = std::exchange(other.view_, {});
  if (is_small_) small_ = other.small_;
  return *this;
}

void Message::release() noexcept {
  if (keeper_) keeper_->give_back(token_);
  keeper_.reset();
  view_ = {};
  is_small_ = false;
}

}  // namespace gantry
