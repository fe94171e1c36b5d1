#include "base/moved_from.hpp"
#include "channel/queue/acknowledger.hpp"

namespace gantry {

WorkItem::WorkItem() noexcept = default;
WorkItem::WorkItem(WorkItem&& other) noexcept {
  *this = std::move(other);
}
WorkItem& WorkItem::operator=(WorkItem&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  message_ = std::move(other.message_);
  acknowledger_ = std::move(other.acknowledger_);
  number_ = std::exchange(other.number_, 0);
  tries_ = std::exchange(other.tries_, 0);
  return *this;
}
WorkItem::~WorkItem() {
  give_back();
}

void WorkItem::give_back() noexcept {
  message_.release();  // first: whoever gets it next may need the room
  if (acknowledger_ == nullptr) return;
  static_cast<void>(guarded([&] { return acknowledger_->tell(ToQueue::given_back, number_); }));
  acknowledger_.reset();
}

std::size_t WorkItem::segments() const noexcept {
  return tries_ == 0 ? 0 : message_.segments() - 1;
}

Segment WorkItem::segment(std::size_t index) const& noexcept {
  return index < segments() ? message_.segment(index) : Segment{};
}

Result<void> WorkItem::done() {
  return guarded([&]() -> Result<void> {
    const auto acknowledger = std::exchange(acknowledger_, nullptr);
    if (acknowledger == nullptr)
      return fail(Code::invalid_argument,
                  fmt::format("item {} has been acknowledged, or is empty", number_),
                  "call done() once, on items of a member that acknowledges by hand");
    return acknowledger->tell(ToQueue::acknowledged, number_);
  });
}

}  // namespace gantry
