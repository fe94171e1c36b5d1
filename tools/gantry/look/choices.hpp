#pragma once  // tools/gantry/look/choices.hpp: what would be done with a sample of moves.

#include <gantry/runtime.hpp>
#include <nlohmann/json_fwd.hpp>

namespace gantry::cli {

struct ExplainedChoice {
  Bytes bytes = 0;
  SubmitMode use = SubmitMode::queued;
  Explanation explanation;
};

/// The choices of the engine "auto" as it is now; nothing is moved.
[[nodiscard]] std::vector<ExplainedChoice> explained_choices(const Runtime& runtime);
[[nodiscard]] nlohmann::json choices_json(const std::vector<ExplainedChoice>& choices);
[[nodiscard]] std::string choices_text(const std::vector<ExplainedChoice>& choices);

}  // namespace gantry::cli
