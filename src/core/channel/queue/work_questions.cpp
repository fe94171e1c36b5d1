#include "core/channel/queue/work_questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/channel/queue/item_batch.hpp"

namespace gantry {

// It is a record in the ring, which takes no slot of the client's.
static_assert(sizeof(WorkQueueReport) <= Message::kInlineBytes);

namespace {

// The member is gone, or has no room: the item is as good as before.
bool is_members_fault(Code code) noexcept {
  return code == Code::timed_out || code == Code::peer_gone || code == Code::closed;
}

/// The reply of `item` failed. True: the member's request is over; false: it may get the next item.
bool is_over(WorkLedger& ledger, Request& asking, const WorkLedger::Item& item,
             const Error& error) {
  const std::uint64_t member = asking.sender().id;
  if (is_members_fault(error.code)) {
    ledger.not_delivered(member, item.number);
    if (error.code == Code::timed_out)
      // In few words: where nothing else has room, a record still does.
      static_cast<void>(asking.refuse({Code::busy, "too many items held: drop some", {}}));
    return true;
  }
  ledger.failed(member, item.number);
  if (!ledger.is_last_resort(item.failures + 1)) return false;
  static_cast<void>(asking.refuse(
      {error.code, fmt::format("item {}, try {}: {}", item.number, item.tries, error.message),
       error.hint}));
  return true;
}

/// How many items the member asked for; the peer's word, within what a batch may have.
std::size_t most_of(const Request& asking) {
  std::uint32_t most = 1;
  const ConstByteSpan word = asking.message().bytes();
  if (word.size() == sizeof most) std::memcpy(&most, word.data(), sizeof most);
  return std::clamp<std::size_t>(most, 1, WorkMember::kMostBatched);
}

Result<void> reply_with(Request& asking, const std::vector<WorkLedger::Item>& items) {
  ItemBatch batch;
  for (const WorkLedger::Item& item : items)
    if (!batch.add({item.number, item.tries, *item.payload->small_bytes()}))
      return fail(Code::invalid_argument, "an item that cannot be read");
  return asking.reply(batch.draft(), {.type = static_cast<std::uint32_t>(PostForm::batch)});
}

/// True: the request has its answer. False: no two items go together, or not to this member.
bool deliver_batch(WorkLedger& ledger, Request& asking, std::size_t most) {
  const std::uint64_t member = asking.sender().id;
  const auto items = ledger.hand_batch_to(member, asking.correlation(), most);
  if (items.empty()) return false;
  if (reply_with(asking, items)) return true;
  for (const WorkLedger::Item& item : items) ledger.not_delivered(member, item.number);
  return false;  // the first is tried alone, which finds out whose fault it is
}

/// False: the item could not be handed over, and another one waits.
bool deliver(WorkLedger& ledger, Request& asking, std::size_t most) {
  if (most > 1 && deliver_batch(ledger, asking, most)) return true;
  const bool will_say = most_of(asking) > 1;
  const WorkLedger::Item item = ledger.hand_to(asking.sender().id, asking.correlation(), will_say);
  const ItemHeader header{item.number, item.tries};
  Draft draft = item.payload->draft();
  draft.copy(std::as_bytes(std::span(&header, 1)));
  const auto replied = asking.reply(std::move(draft));
  return replied || is_over(ledger, asking, item, replied.error());
}

}  // namespace

void hand_out(WorkLedger& ledger, WaitingLine& asking) {
  auto& line = asking.requests();
  while (!line.empty() && ledger.has_waiting()) {
    const std::size_t share = (ledger.waiting() + line.size() - 1) / line.size();
    if (line.front().is_cancelled() ||
        deliver(ledger, line.front(), std::min(share, most_of(line.front()))))
      line.pop_front();
  }
}

void WorkQuestions::take(WorkQuestion question, Request request) {
  switch (question) {
    case WorkQuestion::place:
      return placing_.join(std::move(request));
    case WorkQuestion::all_done:
      return all_done_.join(std::move(request));
    case WorkQuestion::all_finished:
      return all_finished_.join(std::move(request));
    case WorkQuestion::report:
    case WorkQuestion::finished:
      asked_.push_back({question, std::move(request)});
      return;
    case WorkQuestion::item:
      break;
  }
  static_cast<void>(request.refuse({Code::invalid_argument, "no member asks like that", {}}));
}

void WorkQuestions::note_put(Member member) {
  ++unfinished_;
  take_place_back(member);
}

void WorkQuestions::take_place_back(Member member) {
  const auto granted = granted_.find(member);
  if (granted == granted_.end()) return;
  GANTRY_ASSERT(granted_to_all_ != 0);
  --granted_to_all_;
  if (--granted->second == 0) granted_.erase(granted);
}

void WorkQuestions::leave_place(Member member, std::uint64_t number, bool gave_up) {
  if (placing_.leave(member, number))
    left_[member] = number;
  else if (gave_up && left_[member] != number)
    take_place_back(member);
}

void WorkQuestions::note_departure(Member member) {
  left_.erase(member);
  const auto granted = granted_.extract(member);
  if (!granted) return;
  GANTRY_ASSERT(granted.mapped() <= granted_to_all_);
  granted_to_all_ -= granted.mapped();
}

void WorkQuestions::grant_places() {
  auto& line = placing_.requests();
  while (!line.empty() && (most_items_ == 0 || ledger_.waiting() + granted_to_all_ < most_items_)) {
    Request next = std::move(line.front());
    line.pop_front();
    if (next.is_cancelled() || !answer(next)) continue;
    ++granted_[next.sender().id];
    ++granted_to_all_;
    GANTRY_ASSERT(most_items_ == 0 || granted_to_all_ <= most_items_);  // I1
  }
}

void WorkQuestions::answer_one(Asked& asked, const WorkQueueReport& report) {
  if (asked.question == WorkQuestion::report) {
    static_cast<void>(asked.request.reply(std::as_bytes(std::span(&report, 1))));
  } else if (unfinished_ == 0) {
    static_cast<void>(
        asked.request.refuse({Code::invalid_argument, "queue: more was finished than put", {}}));
  } else {
    --unfinished_;
    static_cast<void>(answer(asked.request));
  }
}

void WorkQuestions::answer_all(const WorkQueueReport& report) {
  grant_places();
  for (Asked& asked : asked_) answer_one(asked, report);
  asked_.clear();
  if (unfinished_ == 0) all_finished_.answer_all();
  if (ledger_.is_empty()) all_done_.answer_all();
}

void WorkQuestions::refuse_all(const Error& why) {
  for (WaitingLine* line : {&placing_, &all_done_, &all_finished_}) line->refuse_all(why);
  for (Asked& asked : asked_) static_cast<void>(asked.request.refuse(why));
  asked_.clear();
}

}  // namespace gantry
