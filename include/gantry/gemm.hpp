#pragma once  // gantry/gemm.hpp: products of matrices, by the library that is quickest here.

#include <gantry/channel/message.hpp>
#include <gantry/engine.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <string>
#include <vector>

namespace gantry {

/// c = a * b, or c += a * b if `adds`. Row-major in host memory; a is m x k, b is k x n, c is m x
/// n. A stride counts elements from the beginning of a row to that of the next. What lies between
/// the rows of c is not touched. c overlaps neither a nor b. Sides may be 0: with k = 0 the product
/// is 0, with m or n = 0 nothing is done. Pointers of empty matrices may be null, and their strides
/// are ignored.
struct Gemm {
  DataType type;                 ///< Of the elements of all three; see takes().
  std::int64_t m = 0;            ///< Rows of a and c.
  std::int64_t n = 0;            ///< Columns of b and c.
  std::int64_t k = 0;            ///< Columns of a, rows of b.
  const std::byte* a = nullptr;  ///< Its first element, aligned to an element's size.
  std::int64_t a_stride = 0;     ///< At least `k`.
  const std::byte* b = nullptr;  ///< Likewise.
  std::int64_t b_stride = 0;     ///< At least `n`.
  std::byte* c = nullptr;        ///< Likewise.
  std::int64_t c_stride = 0;     ///< At least `n`.
  bool adds = false;             ///< False: what c held is lost.
};

/// What a library is, and why it was taken.
struct GemmFacts {
  std::string library;   ///< "openblas", "onednn" or "builtin".
  std::string version;   ///< In the library's words.
  std::string core;      ///< The kernels that it chose for this CPU, in its words.
  unsigned threads = 1;  ///< That one product may use.
  std::string why;       ///< Why this one: it was asked for, or what was measured. One line.
};

/// Computes products. Any thread may call, several at a time.
class GANTRY_API GemmLibrary {
 public:
  GemmLibrary() = default;
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;
  virtual ~GemmLibrary();

  /// What it is; the same as long as it is open.
  [[nodiscard]] virtual const GemmFacts& facts() const noexcept = 0;
  /// True if multiply() takes elements of this type.
  [[nodiscard]] virtual bool takes(const DataType& type) const noexcept = 0;
  /// Computes in the calling thread, and in the library's own if facts().threads > 1. f16 and bf16
  /// are summed as f32 and rounded once; integers wrap around. Errors: `invalid_argument` (a null
  /// or misaligned pointer, a stride shorter than a row, a negative or impossible size),
  /// `unsupported` (a type that it does not take), `out_of_memory`, `system` (the library failed).
  [[nodiscard]] virtual Result<void> multiply(const Gemm& product) = 0;
};

/// Which library, and how many threads.
struct GemmOptions {
  /// "openblas": f64, f32. "onednn": f32. "builtin": these, f16, bf16, i32, i64. Empty: for each
  /// type the quickest one that takes it. That is measured when it is first asked for in the
  /// process, and remembered.
  std::string library = {};
  /// That one product may use, from 1 to 1024; what the library made of it is in facts(). OpenBLAS
  /// has one number for the process, which holds for a program's own calls of it, too.
  unsigned threads = 1;
};

/// Loads a library, which stays loaded; the first product that it computes is slow, too. Errors:
/// `not_found` (no such name), `unsupported` (not installed, with what to install), `busy`
/// (OpenBLAS is open with another number of threads), `invalid_argument`.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<GemmLibrary>> open_gemm(
    const GemmOptions& options = {});

/// Lists the libraries by name: usable here, or why not and how to mend that. Loads them, which
/// takes some hundredths of a second, and measures nothing.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> list_gemm_libraries();

}  // namespace gantry
