#pragma once  // tools/gantry/look/serve/collector.hpp: looks at the channels again and again.

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "look/serve/death_report.hpp"

namespace gantry::cli {

/// What one look found. Does not change once it is made.
struct Snapshot {
  std::uint64_t number = 0;  ///< Of the look, from 1.
  std::string error;         ///< Why it failed; then nothing was found.
  std::vector<Row> rows;
  std::vector<RankStatus> ranks;
  std::vector<Gone> gone;        ///< The newest first, at most Collector::kGoneKept.
  std::uint64_t gone_total = 0;  ///< Since the collector began.
  std::uint64_t failed_looks = 0;
  std::chrono::nanoseconds took{};
  std::chrono::steady_clock::time_point when;
};

/// A moment of a channel, or of all of them.
struct Moment {
  std::chrono::steady_clock::time_point when;
  double messages_per_s = 0;
  double bytes_per_s = 0;
  double depth = 0;
};

/// A thread that looks, and what it found. Others may call everything at any time.
class Collector {
 public:
  static constexpr std::chrono::milliseconds kInterval{500};  ///< From the begin of a look to the
                                                              ///< next, if looks are quick.
  static constexpr int kRest = 20;  ///< It rests so many times as long as a look computed.
  static constexpr std::chrono::minutes kKept{5};
  static constexpr std::size_t kGoneKept = 50;

  Collector(std::string directory, const Interrupt& interrupt);
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  /// stop() must have been called, and have returned true.
  ~Collector();

  [[nodiscard]] std::shared_ptr<const Snapshot> newest() const;
  /// Of the last minutes, the oldest first; `channel` empty: of all channels together.
  [[nodiscard]] std::vector<Moment> history(const std::string& channel) const;
  /// False: a look at producers that do not answer goes on for longer than `limit`.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);

 private:
  void run();
  void look();
  void remember(const Snapshot& snapshot);

  const std::string directory_;
  Looks looks_;         // the thread's
  DeathReport deaths_;  // the thread's
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  bool has_ended_ = false;
  std::shared_ptr<const Snapshot> newest_ = std::make_shared<Snapshot>();
  std::map<std::string, std::deque<Moment>> history_;
  std::thread thread_;
};

}  // namespace gantry::cli
