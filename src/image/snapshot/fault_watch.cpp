#include "image/snapshot/fault_watch.hpp"

#include <sys/epoll.h>

#include "base/event.hpp"
#include "base/result.hpp"
#include "base/thread_urgency.hpp"
#include "base/worker_thread.hpp"

namespace gantry::snapshot {

FaultWatch::FaultWatch(FaultSource faults, Fd wake, Fd both, bool records)
    : faults_(std::move(faults)),
      wake_(std::move(wake)),
      both_(std::move(both)),
      records_(records) {}

Result<std::unique_ptr<FaultWatch>> FaultWatch::make(FaultSource faults, const Memory& memory,
                                                     bool records) {
  GANTRY_ASSIGN(Fd wake, make_event());
  Fd both(::epoll_create1(EPOLL_CLOEXEC));
  if (!both) return fail_errno("epoll_create1");
  for (const int one : {faults.descriptor(), wake.get()}) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    if (::epoll_ctl(both.get(), EPOLL_CTL_ADD, one, &event) != 0) return fail_errno("epoll_ctl");
  }
  std::unique_ptr<FaultWatch> watch(
      new FaultWatch(std::move(faults), std::move(wake), std::move(both), records));
  GANTRY_TRY(watch->faults_.watch(memory));
  return watch;
}

Result<void> FaultWatch::start(PageLoader* loader) {
  loader_ = loader;
  const StartsUrgent urgent;
  GANTRY_ASSIGN(thread_, start_thread("a thread that answers faults", [this] {
                  ::pthread_setname_np(::pthread_self(), "gantry-faults");
                  run();
                }));
  return {};
}

FaultWatch::~FaultWatch() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  ring(wake_.get());
  if (thread_.joinable()) thread_.join();
  faults_.ignore();
}

void FaultWatch::settle() {
  {
    const std::lock_guard lock(mutex_);
    records_ = false;
  }
  ring(wake_.get());
}

bool FaultWatch::goes_on() {
  const std::lock_guard lock(mutex_);
  return !stops_ && (records_ || (loader_ != nullptr && !loader_->is_whole()));
}

void FaultWatch::run() {
  std::array<Bytes, FaultSource::kMostTaken> touched;
  while (goes_on()) {
    epoll_event event{};
    if (::epoll_wait(both_.get(), &event, 1, -1) < 0) continue;  // EINTR
    drain(wake_.get());
    for (const Bytes at : faults_.take(touched)) {
      auto answered = guarded([&] { return answer(at / kPageBytes); });
      if (answered) continue;
      if (loader_ != nullptr) loader_->end(std::move(answered).error());
      faults_.poison(at, kPageBytes);
    }
  }
  const std::lock_guard lock(mutex_);
  if (!stops_) faults_.ignore();  // else when nobody makes pages any more
  is_over_ = true;
  ended_.notify_all();
}

void FaultWatch::wait_until_over() {
  std::unique_lock lock(mutex_);
  while (!is_over_ && !records_) ended_.wait(lock);
}

void FaultWatch::record(std::uint64_t page) noexcept {
  const std::lock_guard lock(mutex_);
  ++count_;
  static_cast<void>(guarded([&]() -> Result<void> {
    if (records_ && known_.insert(page).second) touched_.push_back(page);
    return {};
  }));
}

Result<void> FaultWatch::answer(std::uint64_t page) {
  record(page);
  const bool is_there = loader_ == nullptr || faults_.was_dropped(page);
  const auto answer = is_there ? PageLoader::Answer::map : loader_->touched(page);
  if (answer == PageLoader::Answer::map) return faults_.answer_map(page);
  if (answer == PageLoader::Answer::never) faults_.poison(page * kPageBytes, kPageBytes);
  return {};
}

std::vector<std::uint64_t> FaultWatch::touched() {
  const std::lock_guard lock(mutex_);
  return touched_;
}

std::size_t FaultWatch::count() {
  const std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace gantry::snapshot
