#pragma once  // tools/gantry/wait_notice.hpp: says what a command waits for.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace gantry::cli {

/// After two seconds of its life, prints what `text` then answers as a note, once; nothing if that
/// is empty. A thread of its own calls `text`.
class WaitNotice {
 public:
  explicit WaitNotice(std::function<std::string()> text);
  ~WaitNotice();
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

 private:
  void wait();

  const std::function<std::string()> text_;
  std::mutex mutex_;  // guards is_over_
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace gantry::cli
