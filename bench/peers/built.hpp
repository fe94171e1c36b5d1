#pragma once  // bench/peers/built.hpp: which other systems were built, and where they lie.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../support/program/options.hpp"
#include "../support/report/report.hpp"

namespace gantry::bench {

/// Where the programs of peers lie, and the libraries: beside the running program.
[[nodiscard]] std::string peer_path(const std::string& file);

/// Why that file cannot take part, if it was not built for want of `packages`.
[[nodiscard]] std::optional<std::string> lack_of_peer(const std::string& file,
                                                      std::string_view packages);

/// Whether a peer's program can take part. True: the report has the version of its library. False:
/// the report has the reason under `skipped`: the program was not built for want of `packages`, or
/// does not start, as where a library is missing.
[[nodiscard]] bool admit_peer(Report& report, const std::string& subject,
                              const std::string& program, std::string_view packages);

/// --peers-path: folders of installations that are searched before the system's. Set in this
/// process' environment, so that the programs of peers that it starts find them: each folder, its
/// `lib` and `lib64` in $LD_LIBRARY_PATH, its `bin` in $PATH.
[[nodiscard]] OwnOption peers_path_option();

}  // namespace gantry::bench
