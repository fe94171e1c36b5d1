#pragma once  // tools/gantry/run/report/report.hpp: what a run moved, and at what cost.

#include <nlohmann/json_fwd.hpp>

#include "run/process/course.hpp"
#include "run/process/plan.hpp"
#include "run/process/supervise.hpp"

namespace gantry::run {

/// One channel, all its links together.
struct ChannelReport {
  std::string name;
  std::string from;
  std::string to;
  std::size_t links = 0;
  std::uint64_t published_messages = 0;
  std::uint64_t published_bytes = 0;
  std::uint64_t messages = 0;  ///< Received.
  std::uint64_t bytes = 0;     ///< Received.
  double seconds = 0;          ///< From the run's start to the end of the receiving stage.
  double handoff_p50_ns = 0;   ///< Mean of the links' medians, weighted by their messages.
  double handoff_p99_ns = 0;   ///< The worst link's.
  double movement_ns = 0;      ///< Copies before hand-off, and hand-offs, of all messages.
  double cpu_s = 0;            ///< CPU time inside the calls of both ends.
  double sender_wait_s = 0;    ///< Waiting for credit.
  double receiver_wait_s = 0;  ///< Waiting for messages.
  std::array<std::uint64_t, kCopyEngines> copies{};  ///< At both ends, by CopyEngine.
  std::array<std::uint64_t, kCopyEngines> copied_bytes{};

  [[nodiscard]] double gb_per_s() const noexcept;
  [[nodiscard]] double movement_ns_per_message() const noexcept;
  [[nodiscard]] double cpu_s_per_gb() const noexcept;
  /// Everything published has been received.
  [[nodiscard]] bool accounted() const noexcept;
};

/// One stage, all its replicas together.
struct StageReport {
  std::string name;
  std::string host;  ///< Empty: the one of gantry run.
  unsigned replicas = 1;
  bool is_group = false;
  double wall_s = 0;  ///< Of the longest replica.
  double user_s = 0;
  double system_s = 0;
  Bytes max_rss_bytes = 0;    ///< Of the largest replica.
  bool counts_waits = false;  ///< False: it has no channel, and nobody knows how it waits.
  double waiting = 0;         ///< Share of its time spent waiting for messages or credit; 0 to 1.
};

struct RunReport {
  std::string pipeline;
  Transport transport = Transport::gantry;
  double wall_s = 0;
  std::vector<ChannelReport> channels;
  std::vector<StageReport> stages;
  Result<void> end;  ///< As Finished::end; after an error the rest is what is known.
  std::vector<std::string> last_words;

  [[nodiscard]] std::uint64_t bytes() const noexcept;  ///< Of channels: not what ranks exchange.
  [[nodiscard]] double cpu_s() const noexcept;         ///< Of all stages, their own work included.
  /// The one that waits least, of those whose waits are counted.
  [[nodiscard]] const StageReport& slowest() const noexcept;
  /// Errors: names the first channel on which not everything arrived.
  [[nodiscard]] Result<void> check_accounts() const;
};

[[nodiscard]] RunReport make_report(const Plan& plan, const Finished& finished);
[[nodiscard]] std::string to_text(const RunReport& report);
[[nodiscard]] std::string format_ns(double ns);
[[nodiscard]] nlohmann::ordered_json to_json(const RunReport& report);
/// A page that needs nothing else.
[[nodiscard]] std::string to_html(const RunReport& report, const Course& course);

}  // namespace gantry::run
