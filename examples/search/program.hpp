#pragma once  // program.hpp: arguments, one-line errors, exit status: 0 done, 1 failed, 2 misused.

#include <exception>
#include <gantry/types.hpp>
#include <span>
#include <string_view>

namespace search {

using gantry::Result;
using Arguments = std::span<const char* const>;

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kMisused = 2;

struct Program {
  const char* name;
  const char* arguments;  ///< As usage shows them; each is one word.
  const char* summary;
  std::size_t count;  ///< Of the arguments.
};

[[nodiscard]] inline auto refuse(std::string what, std::string hint) {
  return tl::unexpected(
      gantry::Error{gantry::Code::invalid_argument, std::move(what), std::move(hint)});
}

template <class T>
[[nodiscard]] auto failed(const Result<T>& result) {
  return tl::unexpected(result.error());
}

/// A decimal number from 1 to `most`; `what` names it in the error.
[[nodiscard]] Result<std::size_t> parse_number(std::string_view text, std::string_view what,
                                               std::size_t most);

/// Answers --help and wrong usage; prints what went wrong as "NAME: what: why; hint". Returns the
/// exit status of `run(Arguments)`.
[[nodiscard]] int run_program(const Program& program, int argc, const char* const* argv,
                              Result<void> (*run)(Arguments));

}  // namespace search
