#include "wait_notice.hpp"

#include <chrono>

#include "errors.hpp"

namespace gantry::cli {

WaitNotice::WaitNotice(std::function<std::string()> text) : text_(std::move(text)) {
  thread_ = std::thread([this] { wait(); });
}

WaitNotice::~WaitNotice() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void WaitNotice::wait() {
  constexpr std::chrono::seconds kPatience{2};
  std::unique_lock lock(mutex_);
  if (over_.wait_for(lock, kPatience, [this] { return is_over_; })) return;
  lock.unlock();
  if (const std::string text = text_(); !text.empty()) note(text);
}

}  // namespace gantry::cli
