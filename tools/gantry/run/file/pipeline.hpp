#pragma once  // tools/gantry/run/file/pipeline.hpp: the checked contents of a pipeline file.

#include <gantry/types.hpp>
#include <vector>

#include "run/file/document.hpp"
#include "run/file/substitute.hpp"

namespace gantry::run {

struct Variable {
  std::string name;
  std::string value;
};

/// Another host, on which stages run.
struct Host {
  std::string name;
  Position at;
  std::string address;              ///< ADDRESS[:PORT] of its bridge.
  std::vector<std::string> launch;  ///< Runs the command that follows it on that host.
  Position launch_at;
  unsigned rank = 0;     ///< In place of launch: that rank of the job of `gantry run`; 0: none.
  std::string secret;    ///< What that rank wants to hear first; from meet_ranks().
  std::string launcher;  ///< The file of launch; empty until locate_launchers().
  std::string gantry = "gantry";  ///< The program there.
  std::string directory;          ///< Where its stages are started; empty: where launch starts.
};

/// In place of the index of a host: the one on which `gantry run` was started.
inline constexpr std::size_t kThisHost = static_cast<std::size_t>(-1);

struct Stage {
  std::string name;
  Position at;
  std::vector<std::string> command;     ///< Settings filled in.
  const char* command_key = "command";  ///< The key that gave the command.
  Position command_at;
  std::string program;  ///< The file to execute; empty until locate_programs().
  unsigned replicas = 1;
  bool is_group = false;              ///< Each replica is a rank of the group of its name.
  std::vector<Variable> environment;  ///< Added to the runner's.
  std::size_t host = kThisHost;       ///< Index of a host.
  std::string host_name;              ///< Empty: kThisHost.
};

struct Channel {
  static constexpr unsigned kDefaultSlots = 8;
  std::string name;
  Position at;
  std::size_t from = 0;  ///< Index of a stage.
  std::size_t to = 0;
  unsigned slots = kDefaultSlots;
  Bytes budget_bytes = 0;  ///< 0: the library's default.
  std::string as = {};     ///< What its tensors become, checked; empty: as they are sent.
  Position as_at = {};
};

/// An image that is kept while the pipeline runs.
struct ImageFile {
  std::string name;
  Position at;  ///< Of its file's name.
  std::string file;
};

/// Stages and channels stand in the order of the file. The channels make no cycle.
struct Pipeline {
  Source source;
  std::string name;
  std::vector<Host> hosts;
  std::vector<Stage> stages;
  std::vector<Channel> channels;
  std::vector<ImageFile> images;
  std::string text;                ///< What it was read from, for other hosts to read it, too.
  std::vector<Setting> overrides;  ///< Likewise.
};

/// Whether some stage runs on that host.
[[nodiscard]] bool is_used(const Pipeline& pipeline, std::size_t host);

inline constexpr unsigned kMaxReplicas = 64;

/// Whether some stage runs on another host.
[[nodiscard]] bool has_hosts(const Pipeline& pipeline);

/// "CHANNEL.i.j": the name of the link from replica i to replica j.
[[nodiscard]] std::string link_name(std::string_view channel, unsigned from, unsigned to);

/// "stage", or "stage.1" when the stage has several replicas; "stage@host" on another host.
[[nodiscard]] std::string process_label(const Stage& stage, unsigned replica);

}  // namespace gantry::run
