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
  left_line = 5,     ///< `user` is a RequestName: the member does not stand in its line any more.
  place_back = 6,    ///< The member puts nothing where it was granted a place.
  gave_up = 7,       ///< As left_line; and whatever the answer gave, the member will not use it.
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
  std::uint64_t number = 0;  ///< Of this member's requests.
};

/// Which request of its own a member speaks of, in one word.
struct RequestName {
  WorkQuestion question = WorkQuestion::item;
  std::uint64_t number = 0;  // of 56 bits

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

[[nodiscard]] inline std::string put_name(std::string_view name) {
  return std::string(name) + ".put";
}

}  // namespace gantry
