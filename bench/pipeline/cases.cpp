#include "cases.hpp"

namespace gantry::bench {

std::vector<CaseKind> case_kinds() {
  return {vector_add_case(),  saxpy_case(),          black_scholes_case(),
          dot_product_case(), mandelbrot_case(),     monte_carlo_case(),
          convolution_case(), matrix_vector_case(),  dft_case(),
          histogram_case(),   file_histogram_case(), file_histogram_cold_case(),
          file_scale_case(),  file_scale_cold_case()};
}

}  // namespace gantry::bench
