#pragma once  // bench/ipc/instructions.hpp: what the sender's thread executes, by callgrind.

#include <span>

#include "../support/process/callgrind.hpp"
#include "../support/report/report.hpp"
#include "../support/trips/subject.hpp"
#include "settings.hpp"

namespace gantry::bench {

inline constexpr std::string_view kInstructions = "instructions";

[[nodiscard]] std::string instructions_name(std::string_view of);

/// Adds instructions a message of every case and subject. Subjects that cannot be counted are
/// skipped. Errors: `interrupted`.
[[nodiscard]] Result<void> count_instructions(const Settings& settings, Report& report,
                                              int interrupt_descriptor);

/// In the process under callgrind: subject, trips, bytes. The status to exit with.
int run_counted(std::span<char* const> arguments);

}  // namespace gantry::bench
