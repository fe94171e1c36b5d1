#include "loaders.hpp"

#include <fmt/format.h>

namespace gantry::bench {

const std::vector<LoaderKind>& loader_kinds() {
  static const std::vector<LoaderKind> kinds = [] {
    std::vector<LoaderKind> all;
    for (const auto& some : {image_kinds(), safetensors_kinds(), limit_kinds()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return kinds;
}

Result<void> check_loaded(const Loader& loader, const Weights& weights) {
  for (std::size_t i = 0; i < weights.tensors().size(); ++i) {
    const WeightTensor& made = weights.tensors()[i];
    const ConstByteSpan loaded = loader.tensor(i);
    if (loaded.size() == made.bytes && continued_sum(0, loaded) == made.sum) continue;
    return Unexpected({Code::peer_misbehaved,
                       fmt::format("tensor '{}' has other bytes than were made", made.name),
                       {}});
  }
  return {};
}

}  // namespace gantry::bench
