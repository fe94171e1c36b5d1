#pragma once  // channel/queue/queue_protocol.hpp: what members and their queue say to each other.

#include <cstdint>
#include <string>
#include <string_view>

namespace gantry {

/// Of a message to the queue's inbox, in MessageInfo::correlation.
enum class ToQueue : std::uint64_t {
  item = 1,          ///< Its last segment is empty and only makes it take a slot.
  hello = 2,         ///< `user` is the member's identity: it will ask for items by that.
  acknowledged = 3,  ///< `user` is the item's number.
  given_back = 4,    ///< The same; another member shall have it.
  left_line = 5,     ///< `user` is the WorkQuestion of the line that the member stands in no more.
  place_back = 6,    ///< The member puts nothing where it was granted a place.
};

/// What a request to the queue's server is for.
enum class WorkQuestion : std::uint64_t {
  item = 1,      ///< The reply is an item and its header.
  place = 2,     ///< For one item to be put, in a queue that holds only so many.
  report = 3,    ///< The reply is a WorkQueueReport.
  finished = 4,  ///< One item has been worked on: task_done().
  all_finished = 5,
  all_done = 6,
};
struct QueueRequest {
  std::uint64_t member = 0;
  WorkQuestion question = WorkQuestion::item;
};

/// The last segment of a reply that is an item.
struct ItemHeader {
  std::uint64_t number = 0;
  std::uint64_t tries = 0;
};

[[nodiscard]] inline std::string put_name(std::string_view name) {
  return std::string(name) + ".put";
}

}  // namespace gantry
