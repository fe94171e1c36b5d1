#include "core/channel/queue/work_ledger.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "core/channel/queue/item_batch.hpp"

namespace gantry {

WorkPayload::WorkPayload(Message message, bool to_copy)
    : message_(std::make_shared<Message>(std::move(message))) {
  const std::size_t count = message_->segments() - 1;
  Bytes bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Segment segment = message_->segment(i);
    Draft::Part& part = parts_.emplace_back();
    part.forwarded = message_;
    part.bytes = segment.bytes;
    part.tensor = segment.tensor;
    bytes += segment.bytes.size();
  }
  if (!to_copy || bytes > WorkQueueOptions::kMostCopied) return;
  copy_.reserve(bytes + 1);  // the bytes stay where they are, and an empty one has an address
  for (Draft::Part& part : parts_) {
    const auto first = copy_.size();
    copy_.insert(copy_.end(), part.bytes.begin(), part.bytes.end());
    part.bytes = part.copied = {copy_.data() + first, part.bytes.size()};
    part.forwarded.reset();
  }
  message_.reset();
  is_copied_ = true;
}

WorkPayload::WorkPayload(std::shared_ptr<const void> owner, ConstByteSpan bytes, bool is_copied)
    : owner_(std::move(owner)), is_copied_(is_copied) {
  Draft::Part& part = parts_.emplace_back();
  part.bytes = part.copied = bytes;
}

Result<std::vector<std::shared_ptr<WorkPayload>>> copies_that_go_together(
    std::span<const ConstByteSpan> items, std::string_view queue) {
  std::size_t count = 0;
  Bytes bytes = 0;
  while (count < std::min(items.size(), WorkMember::kMostBatched) &&
         items[count].size() <= WorkMember::kMostBatchedItem &&
         bytes + items[count].size() <= WorkMember::kMostBatchBytes)
    bytes += items[count++].size();
  const auto copy = std::make_shared<std::vector<std::byte>>();
  copy->reserve(bytes + 1);  // the bytes stay where they are, and an empty one has an address
  std::vector<std::shared_ptr<WorkPayload>> payloads;
  payloads.reserve(count);
  for (const ConstByteSpan item : items.first(count)) {
    const std::byte* const at = copy->data() + copy->size();
    if (!append_guarded(*copy, item)) {
      if (!payloads.empty()) break;  // the next call says so
      return fail(Code::invalid_argument, fmt::format("queue '{}': an item cannot be read", queue));
    }
    payloads.push_back(std::make_shared<WorkPayload>(copy, ConstByteSpan(at, item.size()), true));
  }
  return payloads;
}

Bytes WorkPayload::bytes() const noexcept {
  Bytes bytes = 0;
  for (const Draft::Part& part : parts_) bytes += part.bytes.size();
  return bytes;
}

std::optional<ConstByteSpan> WorkPayload::small_bytes() const noexcept {
  if (message_ != nullptr || parts_.size() != 1 || parts_[0].tensor ||
      parts_[0].bytes.size() > WorkMember::kMostBatchedItem)
    return std::nullopt;
  return parts_[0].bytes;
}

Draft WorkPayload::draft() const {
  Draft draft;
  for (const Draft::Part& own : parts_) {
    Draft::Part& part = draft.parts().emplace_back();
    part.copied = own.copied;
    part.forwarded = own.forwarded;
    part.bytes = own.bytes;
    part.tensor = own.tensor;
  }
  return draft;
}

void WorkLedger::put(std::shared_ptr<const WorkPayload> payload) {
  copied_ += payload->is_copied() ? 1 : 0;
  waiting_.insert(waiting_.end(), {++put_, 0, 0, 0, false, std::move(payload)});
}

WorkLedger::Item WorkLedger::hand_to(Member member, std::uint64_t request, bool will_say) {
  Item item = give(member, request, will_say);
  note_answer(member, request, {item.number});
  return item;
}

WorkLedger::Item WorkLedger::give(Member member, std::uint64_t request, bool will_say) {
  GANTRY_ASSERT(!waiting_.empty());
  Item item = std::move(waiting_.extract(waiting_.begin()).value());
  item.request = request;
  item.is_unseen = will_say;
  if (item.tries++ != 0) ++redelivered_;
  const bool is_new = hands_[member].emplace(item.number, item).second;
  GANTRY_ASSERT(is_new);  // I1
  ++in_hand_;
  note_in_hand(*item.payload);
  return item;
}

// I5
void WorkLedger::note_in_hand(const WorkPayload& payload) noexcept {
  payload.is_copied() ? kept_by_hands_ += payload.bytes() : ++kept_of_putters_;
}
void WorkLedger::note_out_of_hand(const WorkPayload& payload) noexcept {
  GANTRY_ASSERT(payload.is_copied() ? kept_by_hands_ >= payload.bytes() : kept_of_putters_ != 0);
  payload.is_copied() ? kept_by_hands_ -= payload.bytes() : --kept_of_putters_;
}

void WorkLedger::note_answer(Member member, std::uint64_t request,
                             std::vector<std::uint64_t> numbers) {
  const std::size_t held = numbers.size();
  if (request != 0) answers_.insert_or_assign({member, request}, Answer{std::move(numbers), held});
}

std::vector<WorkLedger::Item> WorkLedger::hand_batch_to(Member member, std::uint64_t request,
                                                        std::size_t most) {
  most = std::min(most, WorkMember::kMostBatched);
  std::size_t count = 0;
  Bytes bytes = 0;
  for (auto next = waiting_.begin(); next != waiting_.end() && count < most; ++next, ++count) {
    const auto small = next->payload->small_bytes();
    if (!small || next->failures != 0) break;  // what failed goes alone
    bytes += small->size();
    if (bytes > WorkMember::kMostBatchBytes) break;
  }
  std::vector<Item> items;
  if (count < 2) return items;
  std::vector<std::uint64_t> numbers;
  for (; count != 0; --count) {
    items.push_back(give(member, request, true));
    numbers.push_back(items.back().number);
  }
  note_answer(member, request, std::move(numbers));
  return items;
}

void WorkLedger::forget(const Item& item) noexcept {
  if (!item.payload->is_copied()) return;
  GANTRY_ASSERT(copied_ != 0);
  --copied_;
}

void WorkLedger::acknowledge(Member member, std::uint64_t number) {
  const auto item = take(member, number);
  if (!item) return;
  forget(*item);
  ++acknowledged_;
}

std::vector<std::uint64_t> WorkLedger::take_answer(Member member, std::uint64_t request) {
  auto answer = answers_.extract({member, request});
  return answer ? std::move(answer.mapped().numbers) : std::vector<std::uint64_t>();
}

void WorkLedger::acknowledge_batch(Member member, std::uint64_t request) {
  for (const std::uint64_t number : take_answer(member, request)) acknowledge(member, number);
}

void WorkLedger::note_seen(Member member, std::uint64_t request) {
  for (const std::uint64_t number : take_answer(member, request)) {
    Hands& hands = hands_[member];
    if (const auto held = hands.find(number); held != hands.end()) held->second.is_unseen = false;
  }
}

void WorkLedger::return_untried(Item item) {
  GANTRY_ASSERT(item.tries != 0);
  if (--item.tries != 0) --redelivered_;
  item.is_unseen = false;
  const bool is_new = waiting_.insert(std::move(item)).second;
  GANTRY_ASSERT(is_new);  // I1
}

void WorkLedger::return_item(Item item) {
  if (item.is_unseen) return return_untried(std::move(item));  // I4
  if (most_tries_ != 0 && item.tries >= most_tries_) {
    ++dropped_;
    return forget(item);
  }
  const bool is_new = waiting_.insert(std::move(item)).second;
  GANTRY_ASSERT(is_new);  // I1
}

std::optional<WorkLedger::Item> WorkLedger::take(Member member, std::uint64_t number) {
  const auto hands = hands_.find(member);
  if (hands == hands_.end()) return std::nullopt;
  auto held = hands->second.extract(number);
  if (!held) return std::nullopt;
  GANTRY_ASSERT(in_hand_ != 0);
  --in_hand_;
  note_out_of_hand(*held.mapped().payload);
  if (const auto answer = answers_.find({member, held.mapped().request});
      answer != answers_.end() && --answer->second.held == 0)
    answers_.erase(answer);
  return std::move(held.mapped());
}

void WorkLedger::take_back(Member member, std::uint64_t number) {
  if (auto item = take(member, number)) return_item(std::move(*item));
}

void WorkLedger::not_delivered(Member member, std::uint64_t number) {
  if (auto item = take(member, number)) return_untried(std::move(*item));
}

void WorkLedger::failed(Member member, std::uint64_t number) {
  auto item = take(member, number);
  if (!item) return;
  ++item->failures;
  item->is_unseen = false;  // its holder's user never will
  return_item(std::move(*item));
}

void WorkLedger::not_read(Member member, std::uint64_t request) {
  for (const std::uint64_t number : take_answer(member, request)) not_delivered(member, number);
}

void WorkLedger::take_all_back(Member member) {
  auto hands = hands_.extract(member);
  if (!hands) return;
  answers_.erase(answers_.lower_bound({member, 0}),
                 answers_.upper_bound({member, ~std::uint64_t{0}}));
  GANTRY_ASSERT(hands.mapped().size() <= in_hand_);
  in_hand_ -= hands.mapped().size();
  for (auto& [number, item] : hands.mapped()) {
    note_out_of_hand(*item.payload);
    return_item(std::move(item));
  }
}

void WorkLedger::report_to(WorkQueueReport& report) const {
  report.waiting_items = waiting_.size();
  report.in_hand = in_hand_;
  report.put = put_;
  report.acknowledged = acknowledged_;
  report.redelivered = redelivered_;
  report.dropped = dropped_;
}

}  // namespace gantry
