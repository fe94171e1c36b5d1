#include "run/process/course.hpp"

namespace gantry::run {

void Course::add(std::chrono::nanoseconds at, const Plan& plan) {
  if (moments_.size() == kMost) {  // every second one stays
    for (std::size_t i = 0; i < kMost / 2; ++i) moments_[i] = std::move(moments_[2 * i]);
    moments_.resize(kMost / 2);
    interval_ *= 2;
  }
  Moment moment{at, std::vector<Moved>(plan.pipeline().channels.size())};
  for (const Link& link : plan.links()) {
    const MetricsReport received = link.receiver.report();
    Moved& moved = moment.channels[link.channel];
    moved.published += link.sender.report().messages;
    moved.messages += received.messages;
    moved.bytes += received.bytes;
  }
  moments_.push_back(std::move(moment));
}

std::chrono::nanoseconds Course::next() const noexcept {
  return moments_.empty() ? std::chrono::nanoseconds(0) : moments_.back().at + interval_;
}

}  // namespace gantry::run
