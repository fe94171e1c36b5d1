#include "run/file/environment.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <gantry/group.hpp>
#include <gantry/stage.hpp>
#include <map>

#include "programs.hpp"

namespace gantry::run {
namespace {

constexpr const char* kPath = "PATH";
constexpr const char* kUsualPath = "/usr/local/bin:/usr/bin:/bin";

std::string inherited_path(const Stage& stage) {
  const auto own = std::ranges::find(stage.environment, kPath, &Variable::name);
  if (own != stage.environment.end()) return own->value;
  const char* inherited = ::getenv(kPath);
  return inherited == nullptr || *inherited == '\0' ? kUsualPath : inherited;
}

}  // namespace

const std::vector<std::string>& own_variables() {
  static const std::vector<std::string> kNames{
      kDirectoryVariable,      kStageVariable,       kReplicaVariable, kReplicasVariable,
      kStageEndpointsVariable, kStageImagesVariable, kGroupVariable,   kRankVariable,
      kRanksVariable,          kJoinWithinVariable};
  return kNames;
}

std::string stage_path(const Stage& stage) {
  const std::string folder = cli::gantry_folder();
  return folder.empty() ? inherited_path(stage) : folder + ":" + inherited_path(stage);
}

std::vector<std::string> stage_environment(const Stage& stage,
                                           const std::vector<Variable>& assigned) {
  std::map<std::string, std::string> values;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      values[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  // Those of a run that this one is a stage of are not its stages'.
  for (const std::string& name : own_variables()) values.erase(name);
  values.erase("GANTRY_TRACE");  // this run's file: a run that is a stage must not overwrite it
  for (const Variable& variable : stage.environment) values[variable.name] = variable.value;
  for (const Variable& variable : assigned) values[variable.name] = variable.value;
  values[kPath] = stage_path(stage);

  std::vector<std::string> result;
  for (const auto& [name, value] : values) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

}  // namespace gantry::run
