#include "look/serve/collector.hpp"

#include <algorithm>
#include <ctime>
#include <iterator>

namespace gantry::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenMoments{900};

// Of this thread: a look waits for others most of its time.
std::chrono::nanoseconds computed() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

Collector::Collector(std::string directory, const Interrupt& interrupt)
    : directory_(std::move(directory)),
      looks_(WhichChannels{.which = {}, .directory = directory_}, interrupt),
      thread_([this] { run(); }) {}

Collector::~Collector() {
  thread_.join();
}

std::shared_ptr<const Snapshot> Collector::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

std::vector<Moment> Collector::history(const std::string& channel) const {
  const std::lock_guard lock(mutex_);
  const auto found = history_.find(channel);
  if (found == history_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

bool Collector::stop(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  is_stopping_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, limit, [this] { return has_ended_; });
}

void Collector::run() {
  for (std::unique_lock lock(mutex_); !is_stopping_;) {
    lock.unlock();
    const auto begin = Clock::now();
    const auto before = computed();
    look();
    const auto next = std::max(begin + kInterval, Clock::now() + kRest * (computed() - before));
    lock.lock();
    changed_.wait_until(lock, next, [this] { return is_stopping_; });
  }
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

void Collector::look() {
  auto snapshot = std::make_shared<Snapshot>();
  const auto last = newest();
  const auto begin = Clock::now();
  auto rows = looks_.look();
  if (rows) snapshot->rows = std::move(*rows);
  if (!rows) snapshot->error = to_string(rows.error());
  if (rows) snapshot->ranks = list_ranks(directory_).value_or(std::vector<RankStatus>());
  snapshot->number = last->number + 1;
  snapshot->failed_looks = last->failed_looks + (rows ? 0 : 1);
  if (rows) snapshot->gone = deaths_.read(snapshot->rows, snapshot->ranks);
  snapshot->gone_total = last->gone_total + snapshot->gone.size();
  std::ranges::copy(last->gone, std::back_inserter(snapshot->gone));
  snapshot->gone.resize(std::min(snapshot->gone.size(), kGoneKept));
  snapshot->when = Clock::now();
  snapshot->took = snapshot->when - begin;
  const std::lock_guard lock(mutex_);
  remember(*snapshot);
  newest_ = std::move(snapshot);
}

// Under the mutex. What is no more has no history either.
void Collector::remember(const Snapshot& snapshot) {
  std::map<std::string, Moment> now;
  Moment& all = now[""];
  all.when = snapshot.when;
  for (const Row& row : snapshot.rows) {
    const auto depth = static_cast<double>(row.channel.depth());
    now[row.channel.name] = {snapshot.when, row.messages_per_s, row.bytes_per_s, depth};
    all.messages_per_s += row.messages_per_s;
    all.bytes_per_s += row.bytes_per_s;
    all.depth += depth;
  }
  std::erase_if(history_, [&](const auto& one) { return !now.contains(one.first); });
  for (const auto& [name, moment] : now) {
    std::deque<Moment>& moments = history_[name];
    if (!moments.empty() && moment.when - moments.back().when < kBetweenMoments) continue;
    moments.push_back(moment);
    if (moment.when - moments.front().when > kKept) moments.pop_front();
  }
}

}  // namespace gantry::cli
