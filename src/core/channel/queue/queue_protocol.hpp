#pragma once  // channel/queue/queue_protocol.hpp: what members and their queue say to each other.

#include <cstdint>

#include "core/sync/wait_flag.hpp"

namespace gantry {

/// What a note to the queue says, in MessageInfo::type; the correlation says of what. A post is an
/// item, whose last segment is empty and only makes the item take a slot, or a batch (PostForm).
enum class ToQueue : std::uint32_t {
  acknowledged = 1,  ///< The item's number.
  given_back = 2,    ///< The same; another member shall have it.
  left_line = 3,     ///< A RequestName: the member does not stand in its line any more.
  place_back = 4,    ///< The member puts nothing where it was granted a place.
  gave_up = 5,       ///< As left_line; and whatever the answer gave, the member will not use it.
  batch_done = 6,    ///< Of an answer that is a batch, the request's number: all are acknowledged.
  batch_seen = 7,    ///< Of an answer to a request for several: the user has it now, as a try.
};

/// Nobody waits for what is acknowledged while the queue hears urgent notes only.
[[nodiscard]] constexpr Urgency urgency_of(ToQueue what) noexcept {
  const bool is_quiet =
      what == ToQueue::acknowledged || what == ToQueue::batch_done || what == ToQueue::batch_seen;
  return is_quiet ? Urgency::quiet : Urgency::urgent;
}

/// What a post, and the reply to an item's request, is: in MessageInfo::type.
enum class PostForm : std::uint32_t {
  item = 0,   ///< One item, of any size.
  batch = 1,  ///< Several small items, see item_batch.hpp.
};

/// What a request to the queue is for, in MessageInfo::type.
enum class WorkQuestion : std::uint32_t {
  item = 1,    ///< For as many as its payload, 32 bits, says. The reply is an item and its header,
               ///< or a batch.
  place = 2,   ///< For one item to be put, in a queue that holds only so many.
  report = 3,  ///< The reply is a WorkQueueReport.
  finished = 4,  ///< One item has been worked on: task_done().
  all_finished = 5,
  all_done = 6,
};

/// Which request of its own a member speaks of, in one word.
struct RequestName {
  WorkQuestion question = WorkQuestion::item;
  std::uint64_t number = 0;  // the call's correlation, of 56 bits

  [[nodiscard]] static RequestName of(std::uint64_t word) noexcept {
    return {static_cast<WorkQuestion>(word & 0xff), word >> 8};
  }
  [[nodiscard]] std::uint64_t word() const noexcept {
    return number << 8 | static_cast<std::uint64_t>(question);
  }
};

/// The last segment of a reply that is an item.
struct ItemHeader {
  std::uint64_t number = 0;
  std::uint64_t tries = 0;
};

}  // namespace gantry
