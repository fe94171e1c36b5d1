#pragma once  // bench/support/program/options.hpp: the command line that all benchmarks share.

#include <functional>
#include <string>
#include <vector>

#include "../system/posix.hpp"

namespace gantry::bench {

// What a benchmark exits with when it could not do what it was asked for.
inline constexpr int kFailed = 1;
inline constexpr int kWrongUsage = 2;
inline constexpr int kInterrupted = 130;

struct Options {
  std::string bench;  ///< Its name.
  std::vector<Bytes> sizes;
  unsigned rounds = 0;
  bool peers = false;
  bool peers_full = false;  ///< "--peers full".
  bool json = false;
  bool judge = false;  ///< A bar that is missed is an error, when all has been said.
  std::string plot{};  ///< A file to draw into; "": none.
};

/// An option that one benchmark has and others have not.
struct OwnOption {
  std::string name;  ///< "--threads".
  std::string help;
  std::string value;        ///< Default.
  std::string quick_value;  ///< The same under --quick.
  /// Told the text; an error is wrong usage.
  std::function<Result<void>(const std::string&)> take;
};

/// A switch that one benchmark has and others have not.
struct OwnFlag {
  std::string name;  ///< "--instructions".
  std::string help;
  bool* given = nullptr;  ///< Set when it is.
};

/// What a benchmark says of itself, and what it does unasked.
struct Manual {
  std::string description;
  std::string notes;         ///< Ends the help; has the example.
  std::string sizes;         ///< Default of --sizes.
  std::string quick_sizes;   ///< The same under --quick.
  std::string peer_sizes{};  ///< The same with --peers; "": no difference.
  std::string full_sizes{};  ///< The same with --peers full; "": as with --peers.
  unsigned rounds = 7;
  unsigned quick_rounds = 3;
  std::string sized = "Message";  ///< What has the sizes.
  bool has_peers = false;         ///< --peers is among its options.
  std::vector<OwnOption> own{};
  std::vector<OwnFlag> flags{};
  /// Whether options fit each other, when all were told; an error is wrong usage.
  std::function<Result<void>()> check{};
};

/// The options, or the status to exit with: help has been printed (0; kFailed when that
/// could not be written), or a complaint (kWrongUsage).
[[nodiscard]] tl::expected<Options, int> parse_options(int argc, const char* const* argv,
                                                       const std::string& bench,
                                                       const Manual& manual);

/// Prints "gantry: bench NAME: problem" to standard error.
void complain(std::string_view name, std::string_view problem);

}  // namespace gantry::bench
