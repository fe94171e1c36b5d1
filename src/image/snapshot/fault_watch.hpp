#pragma once  // image/snapshot/fault_watch.hpp: the thread that answers who touches pages that are
              // not mapped, and records them.

#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "image/snapshot/page_loader.hpp"

namespace gantry::snapshot {

/// Goes on until everything is there and nothing is recorded; after an error, until it goes.
class FaultWatch {
 public:
  /// Watches the memory from now on; nobody is answered before start().
  [[nodiscard]] static Result<std::unique_ptr<FaultWatch>> make(FaultSource faults,
                                                                const Memory& memory, bool records);
  ~FaultWatch();
  FaultWatch(const FaultWatch&) = delete;
  FaultWatch& operator=(const FaultWatch&) = delete;

  /// `loader`: null if everything is there. It outlives the watch.
  [[nodiscard]] Result<void> start(PageLoader* loader);
  [[nodiscard]] FaultSource& faults() noexcept { return faults_; }
  /// An event to ring when the loader has everything.
  [[nodiscard]] int over() const noexcept { return wake_.get(); }
  void settle();
  /// All is there: waits until nothing is watched any more, unless it is recorded.
  void wait_until_over();
  [[nodiscard]] std::vector<std::uint64_t> touched();
  [[nodiscard]] std::size_t count();

 private:
  FaultWatch(FaultSource faults, Fd wake, Fd both, bool records);
  void run();
  /// Errors: no page could be made.
  [[nodiscard]] Result<void> answer(std::uint64_t page);
  /// Where there is no memory for that it is not recorded.
  void record(std::uint64_t page) noexcept;
  [[nodiscard]] bool goes_on();

  FaultSource faults_;
  Fd wake_;
  Fd both_;  // an epoll of them: poll() wants a limit of two open files at least
  PageLoader* loader_ = nullptr;
  std::thread thread_;

  std::mutex mutex_;
  bool records_;
  std::condition_variable ended_;
  bool is_over_ = false;
  bool stops_ = false;
  std::size_t count_ = 0;
  std::unordered_set<std::uint64_t> known_;
  std::vector<std::uint64_t> touched_;  // in their order
};

}  // namespace gantry::snapshot
