#include "shape/reshape/test_rows.hpp"

#include <hwy/highway.h>

namespace gantry::shape {

std::vector<std::int64_t> vector_targets() {
  return hwy::SupportedAndGeneratedTargets();
}

const char* use_target(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return hwy::TargetName(target);
}

}  // namespace gantry::shape
