#pragma once  // channel/queue/queue_options.hpp: what is refused of a queue that is to be opened.

#include <gantry/channel.hpp>
#include <gantry/channel/work_queue.hpp>

#include "base/result.hpp"

namespace gantry {

[[nodiscard]] inline Result<void> check_queue(std::string_view name,
                                              const WorkQueueOptions& options) {
  constexpr std::size_t kMostName = 60;
  if (name.size() > kMostName)
    return fail(Code::invalid_argument,
                fmt::format("queue '{}': its name has {} characters", name, name.size()),
                fmt::format("use at most {}", kMostName));
  GANTRY_TRY(check_channel_name(name));  // before a second name is made of it
  if (const unsigned slots = options.replies.slots; slots == 0 || slots > PayloadOptions::kMaxSlots)
    return fail(Code::invalid_argument, fmt::format("queue '{}': {} slots", name, slots),
                fmt::format("use 1 to {}", PayloadOptions::kMaxSlots));
  if (options.replies.as)
    return fail(
        Code::invalid_argument,
        fmt::format("queue '{}': replies.as is {}, but items are handed on as they were put", name,
                    options.replies.as->text()),
        "set WorkMemberOptions::as of those who put: it converts in their copy");
  return {};
}

}  // namespace gantry
