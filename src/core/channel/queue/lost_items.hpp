#pragma once  // channel/queue/lost_items.hpp: items that were put and cannot be had.

#include <fmt/format.h>

#include <gantry/call.hpp>
#include <optional>
#include <utility>

namespace gantry {

/// What was put by members that the queue hung up on. put() had returned, so whoever waits for all
/// items has to hear of it; once.
class LostItems {
 public:
  /// False: that member went by itself, and what it had put was taken in.
  bool note(std::string_view queue, const Departure& departure) {
    const Error& why = departure.why;
    if (why.code == Code::closed || why.code == Code::peer_gone) return false;
    if (!untold_)
      untold_ = Error{why.code,
                      fmt::format("queue '{}': what process {} had put is lost: {}", queue,
                                  departure.sender.pid, why.message),
                      why.hint};
    return true;
  }
  Result<void> tell() {
    if (auto untold = std::exchange(untold_, std::nullopt))
      return tl::unexpected(*std::move(untold));
    return {};
  }

 private:
  std::optional<Error> untold_;
};

}  // namespace gantry
