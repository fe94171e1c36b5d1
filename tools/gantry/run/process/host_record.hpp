#pragma once  // tools/gantry/run/process/host_record.hpp: what the agent of a host says, a line
              // each.

#include "run/process/failure.hpp"
#include "tools/command_line/printable.hpp"

namespace gantry::run {

/// One line of the agent's standard output: a JSON array, and behind a tab a stage's text as it is.
struct HostRecord {
  enum class Kind { hello, ready, error, out, err, note, failed, ended, counters };
  Kind kind = Kind::note;
  std::string text = {};   ///< hello: the version; error, failed: why; out, err, note: the line.
  std::string hint = {};   ///< error, failed.
  unsigned port = 0;       ///< ready: of its bridge.
  ProcessId process = {};  ///< out, err, failed, ended.
  bool flag = false;       ///< failed: by a signal; ended: by itself; counters: of the sending end.
  Exit exit = {};          ///< ended.
  Usage usage = {};        ///< ended.
  std::size_t link = 0;    ///< counters: its index in the plan.
  MetricsReport counters = {};  ///< counters.
};

/// Longer lines are no records.
inline constexpr std::size_t kLongestRecord = 32 << 10;

/// Without the end of the line. Long texts are cut, and what is no UTF-8 is replaced.
[[nodiscard]] std::string encode_record(const HostRecord& record);

/// Trusts nothing in `line`: processes and ends must be those of `host` in the plan. Errors:
/// `peer_misbehaved`.
[[nodiscard]] Result<HostRecord> decode_record(std::string_view line, const Plan& plan,
                                               std::size_t host);

using cli::printable;

}  // namespace gantry::run
