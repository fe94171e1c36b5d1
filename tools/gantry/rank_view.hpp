#pragma once  // tools/gantry/rank_view.hpp: how ranks and top show the ranks of groups.

#include <gantry/plan.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gantry::cli {

/// A line each; empty when there are none.
[[nodiscard]] std::string ranks_table(const std::vector<RankStatus>& ranks);
[[nodiscard]] nlohmann::json to_json(const std::vector<RankStatus>& ranks);
[[nodiscard]] std::string ranks_json(const std::vector<RankStatus>& ranks);

}  // namespace gantry::cli
