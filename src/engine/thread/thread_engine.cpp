#include "engine/thread/thread_engine.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "engine/check.hpp"

namespace gantry {
namespace {

// Large moves are cut, so that several workers share one and a small one need not wait for all of
// it; small enough to stay in a core's second-level cache, large enough to hide the lock.
constexpr Bytes kUnitBytes = Bytes{512} << 10;
constexpr std::size_t kQueueMoves = 64;

// One queue under one lock. Moves leave it in order (I1: `ended_` is the ticket of the newest move
// before which none is unfinished), units of different moves may run at the same time.
class ThreadEngine final : public Engine {
 public:
  ~ThreadEngine() override { stop(); }

  Result<void> start(unsigned workers);
  CopyEngine kind() const noexcept override { return CopyEngine::thread; }
  Result<Ticket> submit(const Move& move) override;
  std::size_t poll() override;
  Outcome outcome(Ticket ticket) const noexcept override;
  Outcome wait(Ticket ticket, Deadline deadline) override;
  EngineReport report() const noexcept override;

 private:
  struct Pending {
    Move move;
    Bytes given_out = 0;     // bytes handed to somebody
    unsigned in_flight = 0;  // units somebody executes now
    [[nodiscard]] bool has_ended() const noexcept {
      return given_out == move.bytes && in_flight == 0;
    }
  };
  struct Unit {
    Pending* pending;  // stays put: a deque does not move its elements at either end
    Bytes offset;
    Bytes bytes;
  };

  bool take_unit(Unit& unit);
  std::size_t retire();
  struct Ran {
    std::size_t moves_ended;
    std::uint64_t cpu_ns;
  };
  std::optional<Ran> run_one(std::unique_lock<std::mutex>& lock);
  bool ended(Ticket ticket) const { return static_cast<std::uint64_t>(ticket) <= ended_; }
  void work();
  void stop();

  mutable std::mutex mutex_;
  std::condition_variable work_to_do_;
  std::condition_variable progress_;
  std::deque<Pending> queue_;
  std::uint64_t submitted_ = 0;
  std::uint64_t ended_ = 0;
  EngineReport totals_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

Result<void> ThreadEngine::start(unsigned workers) {
  try {
    for (unsigned i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop();
    return fail(Code::system, fmt::format("starting {} copy threads: {}", workers, error.what()),
                "raise the limit of processes (ulimit -u)");
  }
  return {};
}

// Ends what was submitted, then the threads.
void ThreadEngine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_to_do_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

Result<Ticket> ThreadEngine::submit(const Move& move) {
  GANTRY_TRY(check_move(move));
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [this] { return queue_.size() < kQueueMoves; });
  queue_.push_back(Pending{move});
  const Ticket ticket{++submitted_};
  retire();  // a move of nothing has ended already
  lock.unlock();
  if (move.bytes > kUnitBytes)
    work_to_do_.notify_all();
  else
    work_to_do_.notify_one();
  return ticket;
}

bool ThreadEngine::take_unit(Unit& unit) {
  for (Pending& pending : queue_) {
    const Bytes left = pending.move.bytes - pending.given_out;
    if (left == 0) continue;
    unit = {&pending, pending.given_out, std::min(left, kUnitBytes)};
    pending.given_out += unit.bytes;
    ++pending.in_flight;
    return true;
  }
  return false;
}

// Takes ended moves off the front; returns how many.
std::size_t ThreadEngine::retire() {
  std::size_t count = 0;
  while (!queue_.empty() && queue_.front().has_ended()) {
    totals_.bytes += queue_.front().move.bytes;
    queue_.pop_front();
    ++ended_;  // I1
    ++count;
  }
  totals_.moves += count;
  if (count > 0) progress_.notify_all();
  return count;
}

// Executes one unit, the lock let go meanwhile. Nothing when there was none to take.
std::optional<ThreadEngine::Ran> ThreadEngine::run_one(std::unique_lock<std::mutex>& lock) {
  Unit unit{};
  if (!take_unit(unit)) return std::nullopt;
  const Move move = unit.pending->move;
  lock.unlock();
  const std::uint64_t before = thread_cpu_ns();
  execute(move, unit.offset, unit.bytes);
  const std::uint64_t spent = thread_cpu_ns() - before;
  lock.lock();
  --unit.pending->in_flight;
  return Ran{retire(), spent};
}

void ThreadEngine::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (const auto ran = run_one(lock))
      totals_.helper_cpu_ns += ran->cpu_ns;
    else if (stopping_)
      return;
    else
      work_to_do_.wait(lock);
  }
}

std::size_t ThreadEngine::poll() {
  std::unique_lock lock(mutex_);
  const auto ran = run_one(lock);
  return ran ? ran->moves_ended : 0;
}

Outcome ThreadEngine::outcome(Ticket ticket) const noexcept {
  const std::lock_guard lock(mutex_);
  return ended(ticket) ? Outcome::done : Outcome::pending;
}

// The waiter helps while there is something to take, and sleeps when all is in others' hands.
Outcome ThreadEngine::wait(Ticket ticket, Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (static_cast<std::uint64_t>(ticket) > submitted_) return Outcome::failed;
  while (!ended(ticket)) {
    if (deadline.passed()) return Outcome::pending;
    if (run_one(lock)) continue;
    if (deadline.is_never())
      progress_.wait(lock);
    else
      progress_.wait_for(lock, deadline.left());
  }
  return Outcome::done;
}

EngineReport ThreadEngine::report() const noexcept {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace

Result<std::shared_ptr<Engine>> make_thread_engine(unsigned workers) {
  if (workers == 0 || workers > 64)
    return fail(Code::invalid_argument,
                fmt::format("{} copy threads: 1 to 64 are possible", workers));
  auto engine = std::make_shared<ThreadEngine>();
  GANTRY_TRY(engine->start(workers));
  return engine;
}

}  // namespace gantry
