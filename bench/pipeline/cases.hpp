#pragma once  // bench/pipeline/cases.hpp: the cases there are.

#include <memory>
#include <string_view>
#include <vector>

#include "workload.hpp"

namespace gantry::bench {

struct CaseKind {
  std::string_view name;    ///< "vector-add".
  std::string_view kernel;  ///< "vector_add".
  Bytes step_bytes = 0;     ///< What flows for a step, in and out.
  ProgramSource (*program)(const Cut& cut) = nullptr;
  std::unique_ptr<Workload> (*make)(std::uint64_t steps) = nullptr;
  bool is_of_files = false;  ///< Its subjects are ways to files, not modes.
};

/// CaseKind::make of a class; `more`: what its constructor is told besides.
template <class Kind, auto... more>
[[nodiscard]] std::unique_ptr<Workload> make_workload(std::uint64_t steps) {
  return std::make_unique<Kind>(steps, more...);
}

/// All of them, in the order of the report.
[[nodiscard]] std::vector<CaseKind> case_kinds();

// A file for each group of them.
[[nodiscard]] CaseKind vector_add_case();
[[nodiscard]] CaseKind saxpy_case();
[[nodiscard]] CaseKind black_scholes_case();
[[nodiscard]] CaseKind dot_product_case();
[[nodiscard]] CaseKind mandelbrot_case();
[[nodiscard]] CaseKind monte_carlo_case();
[[nodiscard]] CaseKind convolution_case();
[[nodiscard]] CaseKind matrix_vector_case();
[[nodiscard]] CaseKind dft_case();
[[nodiscard]] CaseKind histogram_case();
[[nodiscard]] CaseKind file_histogram_case();
[[nodiscard]] CaseKind file_histogram_cold_case();
[[nodiscard]] CaseKind file_scale_case();
[[nodiscard]] CaseKind file_scale_cold_case();

}  // namespace gantry::bench
