#include "run/file/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gantry::run {

std::string link_name(std::string_view channel, unsigned from, unsigned to) {
  return fmt::format("{}.{}.{}", channel, from, to);
}

std::string process_label(const Stage& stage, unsigned replica) {
  std::string label = stage.name;
  if (stage.replicas != 1) label += fmt::format(".{}", replica);
  if (stage.host != kThisHost) label += "@" + stage.host_name;
  return label;
}

bool has_hosts(const Pipeline& pipeline) {
  return std::ranges::any_of(pipeline.stages,
                             [](const Stage& stage) { return stage.host != kThisHost; });
}

bool is_used(const Pipeline& pipeline, std::size_t host) {
  return std::ranges::count(pipeline.stages, host, &Stage::host) != 0;
}

}  // namespace gantry::run
