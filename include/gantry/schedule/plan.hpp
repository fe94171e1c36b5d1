#pragma once  // gantry/schedule/plan.hpp: what a group of ranks does together, as data that is
              // checked.

#include <gantry/channel/message.hpp>
#include <gantry/types.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gantry {

/// `rows` rows of a tensor from `row` on, and of them `cols` columns from `col` on; from 0.
struct PlanRect {
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  friend bool operator==(const PlanRect&, const PlanRect&) = default;
};

/// A matrix of which each rank of the group has one of its own.
struct PlanTensor {
  std::string name;       ///< Letters, digits and '_'; begins with a letter.
  std::int64_t rows = 0;  ///< 0 to 2^40.
  std::int64_t cols = 0;  ///< 0 to 2^40.
  DataType type;          ///< f64, f32, f16, bf16, i32 or i64.
};

/// A rectangle of a tensor of a rank.
struct PlanPlace {
  unsigned rank = 0;    ///< Below Plan::ranks.
  unsigned tensor = 0;  ///< Its index in Plan::tensors.
  PlanRect rect;        ///< Within the tensor.
};

/// A part of what an element is, by the names of whole matrices that the ranks hold pieces of.
/// Element (i, j) of a tensor is X[i + `row`][j + `col`], X being `left`; or, if there is a matrix
/// Y, `right`, the sum over k from `first` to before `last` of X[i + row][k] * Y[k][j + col].
struct PlanTerm {
  std::string left;
  std::string right = {};  ///< Empty: no product.
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  friend bool operator==(const PlanTerm&, const PlanTerm&) = default;
};

/// What the elements of a rectangle are: the sum of its terms, each of which counts once.
struct PlanValue {
  PlanPlace place;            ///< The rectangle.
  std::vector<PlanTerm> sum;  ///< Its terms; none: the elements are 0.
};

/// What a step does.
enum class PlanVerb : std::uint8_t {
  put,      ///< Own memory to another rank's, which may wait for it.
  get,      ///< Another rank's memory to own, for which that one may wait.
  copy,     ///< Within a rank.
  gemm,     ///< `to` = `from` * `other`, or `to` += that.
  reduce,   ///< `to` += `from`, within a rank.
  fill,     ///< `to` = 0.
  signal,   ///< Nothing but that rank `to.rank` may wait for it.
  barrier,  ///< The n-th one of each rank ends when all ranks have reached theirs.
};
[[nodiscard]] GANTRY_API std::string_view to_string(PlanVerb verb) noexcept;

/// An operation. What a verb does not use is ignored.
struct PlanStep {
  PlanVerb verb = PlanVerb::copy;  ///< It says which of the places count.
  unsigned rank = 0;               ///< Who does it.
  /// The steps of a rank's lane take place one after another, in their order in the plan.
  unsigned lane = 0;
  PlanPlace to;                 ///< What is written, or whom a signal is for.
  PlanPlace from;               ///< What is read.
  PlanPlace other;              ///< Of gemm: the right factor.
  bool adds = false;            ///< Of gemm.
  std::vector<unsigned> after;  ///< Steps that have ended before it begins, by their index.
};

/// Who does what, on which memory, after what. It says nothing of values; check_plan() finds out
/// what they come to.
struct Plan {
  unsigned ranks = 1;                 ///< 1 to 4096.
  unsigned lanes = 1;                 ///< Of each rank.
  std::string about{};                ///< How it was made; one line.
  std::vector<PlanTensor> tensors{};  ///< Each rank has one of each.
  std::vector<PlanValue> given{};     ///< What lies there before.
  std::vector<PlanValue> wanted{};    ///< What has to lie there in the end.
  std::vector<PlanStep> steps{};      ///< Of all ranks.
};

/// What a plan may cost.
struct PlanLimits {
  Bytes memory = ~Bytes{0};  ///< Of the tensors of a rank.
};

/// What a plan that passed costs.
struct PlanFacts {
  std::vector<Bytes> memory;    ///< Of each rank: the tensors that it touches.
  std::vector<Bytes> sent;      ///< By each rank: what leaves its memory for another's.
  std::vector<Bytes> received;  ///< By each rank.
  std::vector<double> flops;    ///< Of each rank's products: two for each pair of elements.
};

/// Reads a plan: docs/formats/plan.md. Errors: `invalid_argument`: "line 7: what: why".
[[nodiscard]] GANTRY_API Result<Plan> parse_plan(std::string_view text);
/// The same plan as text; parse_plan() reads it back.
[[nodiscard]] GANTRY_API std::string to_text(const Plan& plan);
/// "step 3 (put, rank 0)".
[[nodiscard]] GANTRY_API std::string name_of_step(const Plan& plan, unsigned step);

/// Nothing runs that this refuses: places and shapes that do not fit, a step that waits for what
/// its rank does not hear of, steps that wait for each other, memory beyond the limit, memory that
/// is used before it was written or by two steps at once of which one writes, an end that is not
/// what is wanted, or that counts something twice. It executes nothing. Errors:
/// `invalid_argument`; `too_large`; `unsupported` for a product of what is itself a product or a
/// sum.
[[nodiscard]] GANTRY_API Result<PlanFacts> check_plan(const Plan& plan,
                                                      const PlanLimits& limits = {});

}  // namespace gantry
