#pragma once  // channel/wire/inheritance.hpp: what goes along with memory that is forwarded.

#include "core/base/wake.hpp"

namespace gantry::detail {

/// Copies of the wake-up senders of all that lent the memory, the last lender's first. While any
/// copy is open, its lender's own producer sees that somebody may read what it lent, whoever has
/// died in between: DepartedConsumers, G3.
struct Inheritance {
  /// A message that was passed on more often is copied.
  static constexpr std::size_t kMost = 4;

  std::shared_ptr<const WakeSender> sender;
  std::shared_ptr<const Inheritance> of_lender;  // null: the lender's own memory
  std::size_t length = 1;
};

/// Puts `sender` before `of_lender`. Null when that would be too many.
[[nodiscard]] inline std::shared_ptr<const Inheritance> inherit(
    std::shared_ptr<const WakeSender> sender, std::shared_ptr<const Inheritance> of_lender) {
  const std::size_t length = of_lender == nullptr ? 1 : of_lender->length + 1;
  if (length > Inheritance::kMost) return nullptr;
  return std::make_shared<const Inheritance>(
      Inheritance{std::move(sender), std::move(of_lender), length});
}

}  // namespace gantry::detail
