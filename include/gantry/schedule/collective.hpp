#pragma once  // gantry/schedule/collective.hpp: collectives as programs in text, which become
              // plans.

#include <gantry/schedule/plan.hpp>
#include <memory>
#include <string>
#include <vector>

namespace gantry {

namespace collective {
struct Script;
}
class CollectiveProgram;

/// What a program is expanded for. Each rank of the group has to say the same.
struct CollectiveShape {
  unsigned ranks = 1;                        ///< 1 to 4096.
  std::int64_t size = 0;                     ///< In elements; of what, the program says.
  DataType type{DataType::floating, 32, 1};  ///< f64, f32, f16, bf16, i32 or i64.
  std::int64_t chunks = 1;                ///< Into how many pieces a transfer is cut; at least 1.
  unsigned root = 0;                      ///< Below `ranks`, also where the program has none.
  std::vector<std::int64_t> counts = {};  ///< Empty unless the program takes counts.
  std::string variant = {};               ///< Empty: the program's first one.
};

/// Reads a program. Errors: `invalid_argument`: "line 7: what: why"; `too_large`.
[[nodiscard]] GANTRY_API Result<CollectiveProgram> parse_collective(std::string_view text);

/// The plan for a shape. It is not checked yet: check_plan() proves that it comes to what it wants.
/// Time and memory are bounded, whatever the program. Errors: `invalid_argument`: "line 7: what",
/// or, of steps whose shapes do not fit, as check_plan() says it; `too_large`.
[[nodiscard]] GANTRY_API Result<Plan> expand(const CollectiveProgram& program,
                                             const CollectiveShape& shape);

/// A collective as text: docs/formats/collective.md. It is symbolic in ranks and sizes; expand()
/// makes a plan of it. An immutable value; copies share what was read.
class GANTRY_API CollectiveProgram {
 public:
  CollectiveProgram(const CollectiveProgram&) = default;  // a moved-from one stays what it is
  CollectiveProgram& operator=(const CollectiveProgram&) = default;
  ~CollectiveProgram() = default;

  /// As its file, or its maker, calls it.
  [[nodiscard]] const std::string& name() const noexcept;
  /// What it does, what it needs and what it leaves in which tensor; one line.
  [[nodiscard]] const std::string& about() const noexcept;
  /// The names that CollectiveShape::variant may have; empty if there is one way only.
  [[nodiscard]] const std::vector<std::string>& variants() const noexcept;

 private:
  friend Result<CollectiveProgram> parse_collective(std::string_view text);
  friend Result<Plan> expand(const CollectiveProgram& program, const CollectiveShape& shape);
  GANTRY_LOCAL explicit CollectiveProgram(std::shared_ptr<const collective::Script> script) noexcept
      : script_(std::move(script)) {}
  std::shared_ptr<const collective::Script> script_;
};

/// The programs that come with the library, by name; and, if a folder is named, those of its files
/// `*.gcoll`. Errors: those of load_collective(), with the file's name; `already_exists` for a name
/// that two programs have.
[[nodiscard]] GANTRY_API Result<std::vector<CollectiveProgram>> list_collectives(
    const std::string& folder = {});

/// One of the programs that come with the library, by its name; or one of a file, by its path: what
/// has a '/' or ends in ".gcoll". Errors: `not_found`; `invalid_argument`, `too_large` as of
/// parse_collective(), with the file's name; the kernel's.
[[nodiscard]] GANTRY_API Result<CollectiveProgram> load_collective(const std::string& what);

/// Sizes at which one way to do a collective gives way to the next. What stands here is assumed,
/// not measured: a calibration knows better.
struct CollectiveThresholds {
  Bytes eager = Bytes{64} << 10;   ///< Up to this many in a transfer: put at once.
  Bytes direct = Bytes{64} << 10;  ///< Up to this many that a rank would send in one step.
  Bytes at_once = Bytes{1} << 20;  ///< Up to this many of the whole: each with each. A mesh of
                                   ///< links, of which a ring uses one a rank: as much as can be.
  Bytes moved_at_once = Bytes{1} << 20;  ///< The same where nothing is added on the way.
  Bytes chunk = Bytes{256} << 10;        ///< What a ring or a chain hands on at a time.
  std::int64_t most_chunks = 16;         ///< Into so many pieces a transfer is cut at most.
};

/// Which program a collective of some size runs.
struct CollectiveChoice {
  std::string program;      ///< For load_collective().
  std::string variant;      ///< CollectiveShape::variant.
  std::int64_t chunks = 1;  ///< CollectiveShape::chunks.
  std::string reason;       ///< One line.
};

/// Which program to take for `bytes` in `ranks` ranks: of "all-gather", "reduce-scatter",
/// "all-reduce", "all-to-all", "all-to-all-counts" and "broadcast". The same answer everywhere.
/// `bytes`: those of the program's `size` elements. Errors: `not_found`; `invalid_argument`: no
/// ranks.
[[nodiscard]] GANTRY_API Result<CollectiveChoice> pick_collective(
    std::string_view collective, unsigned ranks, Bytes bytes,
    const CollectiveThresholds& thresholds = {});

}  // namespace gantry
