#pragma once  // tools/gantry/look/serve/death_report.hpp: who is gone since the last look.

#include <gantry/plan.hpp>
#include <map>
#include <tuple>

#include "looks.hpp"

namespace gantry::cli {

/// A process that had an end of a channel, or was a rank, and is there no more.
struct Gone {
  std::string where;  ///< The channel, or the group.
  std::string role;   ///< "producer", "consumer", "sender" or "rank".
  int pid = 0;
  std::string name;  ///< EndName::text(); of a rank empty.
  std::string last;  ///< How it stood when it was last seen.
  std::chrono::steady_clock::time_point when;
};

/// Finds out who is gone by comparing a look with the one before. For one thread.
class DeathReport {
 public:
  /// Those who were there at the last look, are not now, and whose process has ended.
  [[nodiscard]] std::vector<Gone> read(const std::vector<Row>& rows,
                                       const std::vector<RankStatus>& ranks);

 private:
  using Who = std::tuple<std::string, std::string, int>;  // where, role, pid
  struct Seen {
    std::string name;
    std::string last;
  };
  std::map<Who, Seen> seen_;
};

}  // namespace gantry::cli
