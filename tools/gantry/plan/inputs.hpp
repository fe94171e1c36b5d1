#pragma once  // tools/gantry/plan/inputs.hpp: plans, costs and operators, from files and options.

#include <CLI/CLI.hpp>
#include <gantry/schedule/choice.hpp>
#include <optional>

namespace gantry::cli {

/// The text of a file. Errors: as the kernel says; `too_large`.
[[nodiscard]] Result<std::string> read_text(const std::string& path);
/// The plan of a file; what is wrong with it is told with the file's name.
[[nodiscard]] Result<Plan> read_plan(const std::string& path);
/// The costs of a file, or "published/NAME".
[[nodiscard]] Result<ScheduleCosts> read_costs(const std::string& name);

/// An operator as options, or as a file of lines "KEY VALUE" with the same names.
struct OperatorInput {
  std::string file;
  std::string kind;
  std::optional<std::int64_t> m, n, k;
  std::optional<unsigned> ranks;
  std::string type;
  std::vector<std::int64_t> split;

  void add_to(CLI::App& command);
  [[nodiscard]] Result<OverlapOperator> read() const;
};

/// "all-gather-gemm of 16 x 32 x 64 bf16 on 4 ranks".
[[nodiscard]] std::string text_of(const OverlapOperator& op);

}  // namespace gantry::cli
