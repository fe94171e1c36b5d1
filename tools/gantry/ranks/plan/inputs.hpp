#pragma once  // tools/gantry/ranks/plan/inputs.hpp: plans, costs and operators, from files and
              // options.

#include <fmt/format.h>

#include <charconv>
#include <gantry/plan.hpp>
#include <optional>
#include "tools/command_line/command.hpp"

namespace gantry::cli {

/// The text of a file. Errors: as the kernel says, with `hint`: what belongs there; `too_large`.
[[nodiscard]] Result<std::string> read_text(const std::string& path, std::string hint);
/// A plan, and where it stands.
struct PlanFile {
  std::string path;
  Plan plan;
  std::vector<std::size_t> step_lines;  ///< Of each step, counted from 1.

  /// `error`, which is about the plan, behind FILE, or FILE:LINE if it names a step.
  [[nodiscard]] Error wrong(Error error) const;
};
/// What is wrong with it is told with the file's name.
[[nodiscard]] Result<PlanFile> read_plan(const std::string& path);
/// The costs of a file, or "published/NAME".
[[nodiscard]] Result<ScheduleCosts> read_costs(const std::string& name);

/// A type of elements by its name.
[[nodiscard]] Result<DataType> read_type(const std::string& name);
/// The same error, behind the name of the file.
[[nodiscard]] Error of_file(const std::string& path, Error error);

template <class Number>
[[nodiscard]] std::errc read_number(std::string_view word, Number& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = error != std::errc() || end == word.data() + word.size();
  return is_whole ? error : std::errc::invalid_argument;
}

/// An option that is a whole number. CLI11 would take some that are none, or become others.
template <class Number, class Into>
Option add_number(const Command& command, const std::string& name, Into& into,
                  const std::string& help) {
  const auto take = [&into, name](const std::string& text) {
    Number number{};
    const std::errc error = read_number(text, number);
    if (error == std::errc::result_out_of_range)
      refuse_word(name, fmt::format("'{}' is beyond all numbers here", text));
    if (error != std::errc()) refuse_word(name, fmt::format("'{}' is no whole number", text));
    into = number;
  };
  return command.add_function(name, take, help)->type_name("NUMBER");
}

/// An operator as options, or as a file of lines "KEY VALUE" with the same names.
struct OperatorInput {
  std::string file;
  std::string kind;
  std::optional<std::int64_t> m, n, k;
  std::optional<unsigned> ranks;
  std::string type;
  std::vector<std::int64_t> split;

  void add_to(const Command& command);
  [[nodiscard]] Result<OverlapOperator> read() const;

 private:
  [[nodiscard]] std::string what_is_missing() const;  // "m, no k"
};

/// "all-gather-gemm of 16 x 32 x 64 bf16 on 4 ranks".
[[nodiscard]] std::string text_of(const OverlapOperator& op);

}  // namespace gantry::cli
