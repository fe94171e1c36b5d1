#include "schedule/run/ended_steps.hpp"

#include "base/assert.hpp"
#include "base/event.hpp"
#include "base/result.hpp"

namespace gantry {

Result<std::unique_ptr<EndedSteps>> EndedSteps::make() {
  GANTRY_ASSIGN(Fd event, make_event());
  return std::unique_ptr<EndedSteps>(new EndedSteps(std::move(event)));
}

void EndedSteps::expect() {
  const std::lock_guard lock(mutex_);
  const std::size_t all = ended_.size() + ++expected_;
  if (all > ended_.capacity()) ended_.reserve(2 * all);
}

void EndedSteps::tell(EndedStep ended) noexcept {
  const std::lock_guard lock(mutex_);
  GANTRY_DEBUG_ASSERT(ended_.size() < ended_.capacity());  // I1
  ended_.push_back(std::move(ended));
  --expected_;
  if (ended_.size() == 1) ring(event_.get());
}

void EndedSteps::take(std::vector<EndedStep>& ended) {
  const std::lock_guard lock(mutex_);
  if (ended_.empty()) return;
  drain(event_.get());
  for (EndedStep& one : ended_) ended.push_back(std::move(one));
  ended_.clear();
}

void EndedSteps::forget() noexcept {
  const std::lock_guard lock(mutex_);
  ended_.clear();
  expected_ = 0;
  drain(event_.get());
}

}  // namespace gantry
