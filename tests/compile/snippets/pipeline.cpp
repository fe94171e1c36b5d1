// docs/mechanisms/pipeline.md 1-
#include <cstdio>
#include <gantry/gantry.hpp>

void run(const std::shared_ptr<gantry::Device>& device, const gantry::ProgramSource& source,
         const std::vector<float>& image, const std::vector<float>& weights,
         std::vector<float>& blurred, std::uint64_t rows, std::uint64_t width) {
  // snippet
}
