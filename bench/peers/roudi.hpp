#pragma once  // bench/peers/roudi.hpp: iceoryx's daemon, for as long as somebody needs it.

#include "../support/process/program_guard.hpp"
#include "../support/trips/subject.hpp"

namespace gantry::bench {

/// The ways of sending that the program of that peer knows.
inline constexpr const char* kCopyVariant = "copy";
inline constexpr const char* kLoanVariant = "loan";

/// Starts `iox-roudi` with pools for that case and waits until it takes clients. There can be one
/// on a machine only, so all iceoryx subjects of a case share it: `shared` finds it again.
[[nodiscard]] Result<std::shared_ptr<ProgramGuard>> find_or_start_roudi(
    const Case& what, std::weak_ptr<ProgramGuard>& shared);

}  // namespace gantry::bench
