#pragma once  // tools/gantry/errors.hpp: reports errors of subcommands.

#include <gantry/types.hpp>

namespace gantry::cli {

inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;  // the status with which a shell reports SIGINT
inline constexpr int kExitReaderLeft = 141;   // the status with which a shell reports SIGPIPE

/// Prints "gantry: what: why; hint" as one line on standard error and returns the exit status.
/// `interrupted` and `closed` (the reader of our output has left) print nothing, since the person
/// caused them.
[[nodiscard]] int fail(const Error& error);

/// The same error with a hint that names options of `gantry`, where the library's names a field.
[[nodiscard]] Error in_words_of_the_command_line(Error error);

/// An error from errno: "what: why (strerror)".
[[nodiscard]] Error system_error(std::string what, int error_number, std::string hint = {});

/// Like fail(), for notes that do not end the program.
void note(std::string_view text);
/// A note of a program that runs for long, with the time: "gantry: 2026-11-29 14:05:33: text".
void note_with_time(std::string_view text);

}  // namespace gantry::cli
