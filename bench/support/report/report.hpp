#pragma once  // bench/support/report/report.hpp: what a benchmark found, for machines and for
              // people.

#include <gantry/runtime.hpp>
#include <optional>
#include <string>
#include <vector>

#include "../system/cpus.hpp"
#include "statistics.hpp"

namespace gantry::bench {

inline constexpr std::string_view kLatencyP50 = "latency_p50";
inline constexpr std::string_view kLatencyP99 = "latency_p99";
inline constexpr std::string_view kLatencyP999 = "latency_p999";
inline constexpr std::string_view kOneWayP50 = "one_way_p50";
inline constexpr std::string_view kSendP50 = "send_p50";
inline constexpr std::string_view kSendP99 = "send_p99";
inline constexpr std::string_view kSendCpuP50 = "send_cpu_p50";
inline constexpr std::string_view kComputeSpeed = "compute_speed";  ///< Of the undisturbed one.
inline constexpr std::string_view kMessageTime = "message_time";    ///< With several in flight.
inline constexpr std::string_view kThroughput = "throughput";
inline constexpr std::string_view kCpuPerGb = "cpu_per_gb";
inline constexpr std::string_view kWireBytes = "wire_bytes";              ///< A payload byte.
inline constexpr std::string_view kCallerCpuPerGb = "caller_cpu_per_gb";  // parts of the one above
inline constexpr std::string_view kHelperCpuPerGb = "helper_cpu_per_gb";

/// One figure. `bytes` is the size of the case.
struct Row {
  std::string case_name;
  std::string subject;
  Bytes bytes = 0;
  std::string_view metric;
  std::string_view unit;
  Summary summary;
};

struct Skipped {
  std::string subject;
  std::string reason;
};

/// Which build of another system a subject used, as the loaded library says.
struct PeerVersion {
  std::string subject;
  std::string version;  ///< "UCX 1.22.0".
  std::string library;  ///< Path of the file; "": compiled in.
};

/// A figure beside what was wanted of it.
struct Finding {
  std::string what;
  double value = 0;
  std::string wanted;         ///< "at least 1.25"; "": nothing.
  std::optional<bool> met{};  ///< Unknown where nothing was wanted, or not by one number.
  bool is_measured = true;    ///< Otherwise there is no value, and what was wanted is not met.
};

/// What a subject said of its choices in a case.
struct Chosen {
  std::string case_name;
  std::string subject;
  std::string text;
};

struct Report {
  std::string bench;
  MachineFacts machine;
  std::optional<CpuPair> cpus;  ///< None: threads run where the system puts them.
  std::vector<Row> rows;
  std::vector<Skipped> skipped;
  std::vector<Finding> findings{};
  std::vector<Chosen> chosen{};
  std::vector<PeerVersion> peers{};

  /// The row of that size, subject and metric; null when there is none.
  [[nodiscard]] const Row* find(Bytes bytes, std::string_view subject,
                                std::string_view metric) const noexcept;
  /// The same for cases that are not told apart by their sizes.
  [[nodiscard]] const Row* find(std::string_view case_name, std::string_view subject,
                                std::string_view metric) const noexcept;
};

/// An empty one of this machine, with the CPUs that a pair is bound to.
[[nodiscard]] Result<Report> pinned_report(std::string bench);

/// The document of the benchmark contract.
[[nodiscard]] std::string to_json(const Report& report);

// Pieces of a table: "1.25 us"; one of a round to the other; CPUs and kernel, and the versions of
// peers; what was left out.
[[nodiscard]] std::string time_text(double ns);
[[nodiscard]] std::string range_text(const Summary& summary);
[[nodiscard]] std::string machine_line(const Report& report);
[[nodiscard]] std::string skipped_lines(const Report& report);

/// A table for each case. Ratios are times of `reference`'s p50.
[[nodiscard]] std::string to_table(const Report& report, std::string_view reference);

}  // namespace gantry::bench
