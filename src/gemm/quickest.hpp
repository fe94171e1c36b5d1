#pragma once  // gemm/quickest.hpp: of several libraries the quickest one for each type.

#include <functional>

#include "gemm/checked.hpp"

namespace gantry {

/// Returns the seconds of a product; all products of a type that it is asked for are the same.
using GemmMeasure = std::function<double(GemmLibrary& library, Element element)>;
/// Multiplies squares of 192, a few milliseconds long. Infinity: the library failed.
[[nodiscard]] double measure_gemm(GemmLibrary& library, Element element);

/// Takes for each type the first of `libraries` that has it, or one of the later ones that is
/// quicker by more than a tenth: close calls end alike everywhere. `libraries` is not empty, and
/// the last one takes every type. A type that only one has is not measured.
[[nodiscard]] std::shared_ptr<GemmLibrary> quickest_gemm(
    const std::vector<std::shared_ptr<GemmLibrary>>& libraries, const GemmMeasure& measure);

}  // namespace gantry
