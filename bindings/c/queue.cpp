// Queues of work: the queue itself, and the ends that put and get.

#include <gantry/queue.h>

#include <memory>

#include "options.hpp"
#include "parts.hpp"

using gantry::Code;
using gantry::Result;
namespace c = gantry::c;

namespace {

Result<gantry::WorkQueueOptions> queue_options_of(const gantry_queue_options* options,
                                                  const gantry_runtime& runtime) {
  GANTRY_C_ASSIGN(const auto given, c::read_struct(options, "gantry_queue_options"));
  gantry::WorkQueueOptions made;
  made.channel.directory = runtime.directory;
  if (given.slots != 0) made.replies.slots = given.slots;
  if (given.members != 0) made.members = given.members;
  if (given.most_copied != 0) made.most_copied = given.most_copied;
  made.most_tries = given.most_tries;
  made.most_items = given.most_items;
  return made;
}

Result<gantry::WorkMember> connect(gantry_runtime& runtime, const char* name,
                                   gantry::WorkMemberOptions options, std::int64_t timeout_ns) {
  options.directory = runtime.directory;
  GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
  return gantry::WorkMember::connect(name, options, runtime.runtime.default_engine(), deadline);
}

gantry_queue_report told_of(const gantry::WorkQueueReport& found) {
  gantry_queue_report told{};
  told.members = found.members;
  told.waiting_items = found.waiting_items;
  told.in_hand = found.in_hand;
  told.waiting_workers = found.waiting_workers;
  told.put = found.put;
  told.acknowledged = found.acknowledged;
  told.redelivered = found.redelivered;
  told.dropped = found.dropped;
  return told;
}

gantry::WorkMember* member_of(void* end) {
  auto* const handle = static_cast<c::Handle*>(end);
  if (auto* const producer = dynamic_cast<gantry_producer*>(handle))
    return std::get_if<gantry::WorkMember>(&producer->end);
  if (auto* const consumer = dynamic_cast<gantry_consumer*>(handle))
    return std::get_if<gantry::WorkMember>(&consumer->end);
  return nullptr;
}

Result<void> no_member() {
  return c::fail(Code::invalid_argument, "that end is no queue's",
                 "open it by gantry_queue_get_end() or gantry_queue_put_end()");
}

Result<void> ask(gantry::WorkMember& member, std::uint32_t question, gantry::Deadline deadline,
                 gantry_queue_report* report) {
  switch (question) {
    case GANTRY_QUEUE_REPORT: {
      GANTRY_C_TRY(c::check_pointer(report, "report"));
      GANTRY_C_ASSIGN(const auto found, member.report(deadline));
      return c::write_struct(report, told_of(found), "gantry_queue_report");
    }
    case GANTRY_QUEUE_PLACE:
      return member.reserve(deadline);
    case GANTRY_QUEUE_TASK_DONE:
      return member.task_done(deadline);
    case GANTRY_QUEUE_ALL_FINISHED:
      return member.wait_until_finished(deadline);
    case GANTRY_QUEUE_ALL_DONE:
      return member.wait_until_done(deadline);
    case GANTRY_QUEUE_PLACE_BACK:
      return member.give_place_back();
    default:
      return c::fail(Code::invalid_argument,
                     "no question has the number " + std::to_string(question));
  }
}

Result<std::vector<gantry::ConstByteSpan>> items_of(const gantry_part* items, std::size_t count) {
  std::vector<gantry::ConstByteSpan> found;
  if (count != 0) GANTRY_C_TRY(c::check_pointer(items, "items"));
  found.reserve(count);
  const auto* next = reinterpret_cast<const unsigned char*>(items);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const item = reinterpret_cast<const gantry_part*>(next);
    GANTRY_C_ASSIGN(const std::size_t size, c::size_of(item, "gantry_part"));
    if (size != items->size)
      return c::fail(Code::invalid_argument,
                     "item " + std::to_string(i) + ": its size is not that of item 0");
    GANTRY_C_ASSIGN(const auto part, c::read_struct(item, "gantry_part"));
    next += size;
    if (part.block != nullptr || part.message != nullptr || part.tensor != nullptr)
      return c::fail(Code::invalid_argument,
                     "item " + std::to_string(i) + " has a block, a message or a tensor",
                     "put it alone, by gantry_send()");
    if (part.bytes != 0) GANTRY_C_TRY(c::check_pointer(part.data, "data"));
    found.emplace_back(static_cast<const std::byte*>(part.data), part.bytes);
  }
  return found;
}

Result<void> put_all(gantry::WorkMember& member, std::span<const gantry::ConstByteSpan> items,
                     gantry::Deadline deadline, std::size_t& put) {
  while (put < items.size()) {
    GANTRY_C_ASSIGN(const std::size_t more, member.put_many(items.subspan(put), deadline));
    put += more;
  }
  return {};
}

/// All of them, or none is the caller's.
void hand_out_all(std::vector<gantry::WorkItem> items, gantry_message** messages,
                  std::size_t* count) {
  std::vector<std::unique_ptr<gantry_message>> made;
  made.reserve(items.size());
  for (gantry::WorkItem& item : items) {
    gantry_message* one = nullptr;
    c::hand_out_item(&one, std::move(item));
    made.emplace_back(one);
  }
  for (auto& one : made) messages[(*count)++] = one.release();
}

/// `get`: of a member, a number of items and a deadline.
template <class Get>
gantry_code get_into(gantry_consumer* consumer, std::int64_t timeout_ns, gantry_message** messages,
                     std::size_t* count, Get get) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(count, "count"));
    GANTRY_C_TRY(c::check_pointer(static_cast<const void*>(messages), "messages"));
    GANTRY_C_TRY(c::check_pointer(consumer, "consumer"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    auto* const member = member_of(consumer);
    if (member == nullptr) return no_member();
    GANTRY_C_ASSIGN(std::vector<gantry::WorkItem> items, get(*member, deadline));
    hand_out_all(std::move(items), messages, count);
    return {};
  });
}

}  // namespace

namespace gantry::c {

Result<void> put(WorkMember& member, const gantry_part* parts, std::size_t count,
                 std::int64_t timeout_ns, const gantry_send_options* options) {
  GANTRY_C_ASSIGN(const auto given, read_struct(options, "gantry_send_options"));
  if (given.mode != GANTRY_MODE_AUTOMATIC || given.type != 0 || given.user != 0)
    return fail(Code::invalid_argument, "gantry_send_options: an item of a queue has none",
                "put what belongs to it into the item");
  GANTRY_C_ASSIGN(const auto deadline, deadline_of(timeout_ns));
  GANTRY_C_ASSIGN(Draft draft, draft_of(parts, count));
  return member.put(std::move(draft), deadline);
}

}  // namespace gantry::c

gantry_code gantry_queue_open(gantry_runtime* runtime, const char* name,
                              const gantry_queue_options* options, gantry_queue** queue) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, name, queue, "queue"));
    GANTRY_C_ASSIGN(const auto made, queue_options_of(options, *runtime));
    GANTRY_C_ASSIGN(gantry::WorkQueue opened,
                    gantry::WorkQueue::open(name, made, runtime->runtime.default_engine()));
    c::hand_out(queue, std::move(opened));
    return {};
  });
}

gantry_code gantry_queue_finish(gantry_queue* queue) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(queue, "queue"));
    queue->queue.finish();
    return {};
  });
}

gantry_code gantry_queue_wait(gantry_queue* queue, std::int64_t timeout_ns) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(queue, "queue"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    return queue->queue.wait_until_done(deadline);
  });
}

gantry_code gantry_queue_get_report(gantry_queue* queue, gantry_queue_report* report) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(report, "report"));
    GANTRY_C_TRY(c::check_pointer(queue, "queue"));
    return c::write_struct(report, told_of(queue->queue.report()), "gantry_queue_report");
  });
}

gantry_code gantry_queue_put_end(gantry_runtime* runtime, const char* name,
                                 const gantry_producer_options* options, std::int64_t timeout_ns,
                                 gantry_producer** producer) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, name, producer, "producer"));
    GANTRY_C_ASSIGN(auto given, c::client_options_of(options, *runtime));
    gantry::WorkMemberOptions made;
    static_cast<gantry::EndOptions&>(made) = given;
    static_cast<gantry::PayloadOptions&>(made) = given;
    const auto pool = made.memory;
    GANTRY_C_ASSIGN(gantry::WorkMember opened,
                    connect(*runtime, name, std::move(made), timeout_ns));
    c::hand_out(producer, std::move(opened), pool);
    return {};
  });
}

gantry_code gantry_queue_get_end(gantry_runtime* runtime, const char* name,
                                 const gantry_consumer_options* options, std::uint32_t acknowledge,
                                 std::int64_t timeout_ns, gantry_consumer** consumer) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_opening(runtime, name, consumer, "consumer"));
    GANTRY_C_ASSIGN(auto given, c::consumer_options_of(options, *runtime));
    if (acknowledge > GANTRY_ACKNOWLEDGE_BY_HAND)
      return c::fail(Code::invalid_argument,
                     "no way to acknowledge has the number " + std::to_string(acknowledge));
    gantry::WorkMemberOptions made;
    static_cast<gantry::EndOptions&>(made) = given;
    made.acknowledge = static_cast<gantry::Acknowledge>(acknowledge);
    GANTRY_C_ASSIGN(gantry::WorkMember opened,
                    connect(*runtime, name, std::move(made), timeout_ns));
    c::hand_out(consumer, std::move(opened));
    return {};
  });
}

gantry_code gantry_done(gantry_message* message) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(message, "message"));
    if (message->state && message->state->item) return message->state->item->done();
    return c::fail(Code::invalid_argument, "that message is no item of a queue",
                   "get items from gantry_queue_get_end()");
  });
}

gantry_code gantry_queue_ask(void* end, std::uint32_t question, std::int64_t timeout_ns,
                             gantry_queue_report* report) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::check_pointer(end, "end"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    auto* const member = member_of(end);
    return member == nullptr ? no_member() : ask(*member, question, deadline, report);
  });
}

gantry_code gantry_queue_withdraw(gantry_consumer* consumer, std::int64_t timeout_ns,
                                  gantry_message** message) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(message, "message"));
    GANTRY_C_TRY(c::check_pointer(consumer, "consumer"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    auto* const member = member_of(consumer);
    if (member == nullptr) return no_member();
    GANTRY_C_ASSIGN(gantry::WorkItem item, member->withdraw(deadline));
    c::hand_out_item(message, std::move(item));
    return {};
  });
}

gantry_code gantry_queue_put_many(gantry_producer* producer, const gantry_part* items,
                                  std::size_t count, std::int64_t timeout_ns, std::size_t* put) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(put, "put"));
    GANTRY_C_TRY(c::check_pointer(producer, "producer"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    GANTRY_C_ASSIGN(const auto found, items_of(items, count));
    auto* const member = member_of(producer);
    return member == nullptr ? no_member() : put_all(*member, found, deadline, *put);
  });
}

gantry_code gantry_queue_get_many(gantry_consumer* consumer, std::size_t most,
                                  std::int64_t timeout_ns, gantry_message** messages,
                                  std::size_t* count) {
  return get_into(consumer, timeout_ns, messages, count,
                  [most](gantry::WorkMember& member, gantry::Deadline deadline) {
                    return member.get_many(most, deadline);
                  });
}

gantry_code gantry_queue_withdraw_many(gantry_consumer* consumer, std::size_t most,
                                       std::int64_t timeout_ns, gantry_message** messages,
                                       std::size_t* count) {
  return get_into(consumer, timeout_ns, messages, count,
                  [most](gantry::WorkMember& member, gantry::Deadline deadline) {
                    return member.withdraw_many(deadline, most);
                  });
}

gantry_code gantry_queue_put_here(gantry_queue* queue, const gantry_part* items, std::size_t count,
                                  std::size_t* put) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(put, "put"));
    GANTRY_C_TRY(c::check_pointer(queue, "queue"));
    GANTRY_C_ASSIGN(const auto found, items_of(items, count));
    GANTRY_C_ASSIGN(*put, queue->queue.put_here(found));
    return {};
  });
}

gantry_code gantry_queue_take_here(gantry_queue* queue, std::size_t most, std::int64_t timeout_ns,
                                   int interrupt_descriptor, gantry_message** messages,
                                   std::size_t* count) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(count, "count"));
    GANTRY_C_TRY(c::check_pointer(static_cast<const void*>(messages), "messages"));
    GANTRY_C_TRY(c::check_pointer(queue, "queue"));
    GANTRY_C_ASSIGN(const auto deadline, c::deadline_of(timeout_ns));
    GANTRY_C_ASSIGN(std::vector<gantry::WorkItem> items,
                    queue->queue.take_many_here(most, deadline, interrupt_descriptor));
    hand_out_all(std::move(items), messages, count);
    return {};
  });
}
