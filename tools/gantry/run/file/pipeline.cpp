#include "run/file/pipeline.hpp"

#include <fmt/format.h>

namespace gantry::run {

std::string link_name(std::string_view channel, unsigned from, unsigned to) {
  return fmt::format("{}.{}.{}", channel, from, to);
}

std::string process_label(const Stage& stage, unsigned replica) {
  return stage.replicas == 1 ? stage.name : fmt::format("{}.{}", stage.name, replica);
}

}  // namespace gantry::run
