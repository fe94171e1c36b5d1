#include "image/snapshot/fault_watch.hpp"

#include "base/block_signals.hpp"
#include "base/event.hpp"
#include "base/result.hpp"
#include "base/thread_urgency.hpp"
#include "base/worker_thread.hpp"

namespace gantry::snapshot {

FaultWatch::FaultWatch(FaultSource faults, Fd wake, bool records)
    : faults_(std::move(faults)), wake_(std::move(wake)), records_(records) {}

Result<std::unique_ptr<FaultWatch>> FaultWatch::make(FaultSource faults, const Memory& memory,
                                                     bool records) {
  GANTRY_ASSIGN(Fd wake, make_event());
  std::unique_ptr<FaultWatch> watch(new FaultWatch(std::move(faults), std::move(wake), records));
  GANTRY_TRY(watch->faults_.watch(memory));
  return watch;
}

Result<void> FaultWatch::start(PageLoader* loader) {
  loader_ = loader;
  const BlockSignals blocked;
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
    std::array<pollfd, 2> entries{{{faults_.descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    drain(wake_.get());
    for (const Bytes at : faults_.take(touched))
      if (!guarded([&] { return answer(at / kPageBytes); })) faults_.poison(at, kPageBytes);
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

Result<void> FaultWatch::answer(std::uint64_t page) {
  {
    const std::lock_guard lock(mutex_);
    ++count_;
    if (records_ && known_.insert(page).second) touched_.push_back(page);
  }
  const auto answer = loader_ == nullptr ? PageLoader::Answer::map : loader_->touched(page);
  const Bytes at = page * kPageBytes;
  if (answer == PageLoader::Answer::map) return faults_.map(at, kPageBytes);
  if (answer == PageLoader::Answer::never) faults_.poison(at, kPageBytes);
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
