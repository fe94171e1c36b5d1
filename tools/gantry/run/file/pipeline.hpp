#pragma once  // tools/gantry/run/file/pipeline.hpp: the checked contents of a pipeline file.

#include <gantry/types.hpp>
#include <vector>

#include "run/file/document.hpp"

namespace gantry::run {

struct Variable {
  std::string name;
  std::string value;
};

struct Stage {
  std::string name;
  Position at;
  std::vector<std::string> command;     ///< Settings filled in.
  const char* command_key = "command";  ///< The key that gave the command.
  Position command_at;
  std::string program;  ///< The file to execute; empty until locate_programs().
  unsigned replicas = 1;
  std::vector<Variable> environment;  ///< Added to the runner's.
};

struct Channel {
  static constexpr unsigned kDefaultSlots = 8;
  std::string name;
  Position at;
  std::size_t from = 0;  ///< Index of a stage.
  std::size_t to = 0;
  unsigned slots = kDefaultSlots;
  Bytes budget_bytes = 0;  ///< 0: the library's default.
};

/// Stages and channels stand in the order of the file. The channels make no cycle.
struct Pipeline {
  Source source;
  std::string name;
  std::vector<Stage> stages;
  std::vector<Channel> channels;
};

inline constexpr unsigned kMaxReplicas = 64;

/// "CHANNEL.i.j": the name of the link from replica i to replica j.
[[nodiscard]] std::string link_name(std::string_view channel, unsigned from, unsigned to);

/// "stage", or "stage.1" when the stage has several replicas.
[[nodiscard]] std::string process_label(const Stage& stage, unsigned replica);

}  // namespace gantry::run
