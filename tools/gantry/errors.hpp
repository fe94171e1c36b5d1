#pragma once  // tools/gantry/errors.hpp: how a subcommand that failed ends.

#include <gantry/types.hpp>

namespace gantry::cli {

inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;  // as a shell reports a program that SIGINT ended
inline constexpr int kExitReaderLeft = 141;   // ... that SIGPIPE ended

/// Tells the person what went wrong, "gantry: what: why; hint" as one line on standard error,
/// and returns the exit status to end with. `interrupted` and `closed` (whoever reads our output
/// has left) say nothing: the person did it.
[[nodiscard]] int fail(const Error& error);

/// An error from errno: "what: why (strerror)".
[[nodiscard]] Error system_error(std::string what, int error_number, std::string hint = {});

/// Like fail(), for notes that do not end the program.
void note(std::string_view text);

}  // namespace gantry::cli
