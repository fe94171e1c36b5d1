#pragma once  // tools/gantry/ranks/plan/answers.hpp: what `gantry plan` says, as text and as JSON.

#include <gantry/plan.hpp>
#include <nlohmann/json_fwd.hpp>

namespace gantry::cli {

[[nodiscard]] std::string facts_text(const Plan& plan, const PlanFacts& facts);
[[nodiscard]] nlohmann::json facts_json(const Plan& plan, const PlanFacts& facts);

[[nodiscard]] std::string simulated_text(const Simulated& times, const ScheduleCosts& costs);
[[nodiscard]] nlohmann::json simulated_json(const Simulated& times, const ScheduleCosts& costs);

[[nodiscard]] std::string choice_text(const OverlapOperator& op, const Choice& choice,
                                      const ScheduleCosts& costs);
[[nodiscard]] nlohmann::json choice_json(const OverlapOperator& op, const Choice& choice,
                                         const ScheduleCosts& costs);

[[nodiscard]] std::string searched_text(const OverlapOperator& op, const Searched& found,
                                        const ScheduleCosts& costs);
[[nodiscard]] nlohmann::json searched_json(const OverlapOperator& op, const Searched& found,
                                           const ScheduleCosts& costs);

}  // namespace gantry::cli
