#pragma once  // tools/gantry/commands.hpp: the commands, and which program has each.

#include <array>
#include <string_view>

#include "tools/command_line/command.hpp"

namespace gantry::cli {

/// Gives `command` its options, and a callback that runs it and sets `exit_code`.
using AddCommand = void(const Command& command, int& exit_code);

// Weak: null in programs that do not have it.
[[gnu::weak]] AddCommand add_agent;  // run/agent.cpp
[[gnu::weak]] AddCommand add_bench;
[[gnu::weak]] AddCommand add_bridge;     // net/bridge.cpp
[[gnu::weak]] AddCommand add_calibrate;  // look/calibrate.cpp
[[gnu::weak]] AddCommand add_doctor;     // look/doctor.cpp
[[gnu::weak]] AddCommand add_get;
[[gnu::weak]] AddCommand add_image;  // image/image.cpp
[[gnu::weak]] AddCommand add_keep;   // image/keep.cpp
[[gnu::weak]] AddCommand add_ls;
[[gnu::weak]] AddCommand add_mirror;  // net/mirror.cpp
[[gnu::weak]] AddCommand add_pack;    // image/pack.cpp
[[gnu::weak]] AddCommand add_pages;   // pages/pages.cpp
[[gnu::weak]] AddCommand add_plan;    // ranks/plan/plan.cpp
[[gnu::weak]] AddCommand add_put;
[[gnu::weak]] AddCommand add_ranks;  // ranks/ranks.cpp
[[gnu::weak]] AddCommand add_run;    // run/run.cpp
[[gnu::weak]] AddCommand add_serve;  // look/serve/serve.cpp
[[gnu::weak]] AddCommand add_top;    // look/top.cpp
[[gnu::weak]] AddCommand add_trace;  // look/trace.cpp

struct CommandRow {
  std::string_view name;
  std::string_view program;  ///< `gantry`, or one in libexec.
  const char* summary;
  AddCommand* add;        ///< Null: this program does not have the command.
  bool is_listed = true;  ///< Help lists it.
};

/// In the order in which help lists them.
inline constexpr auto kCommands = std::to_array<CommandRow>(
    {{"run", "gantry-run", "Run a pipeline: start its stages, connect them", add_run},
     {"plan", "gantry-ranks",
      "Check, simulate and choose plans of several ranks: products that they share, collectives",
      add_plan},
     {"agent", "gantry-run", "Started by gantry run: runs its stages on this host", add_agent},
     {"put", "gantry", "Send standard input into a channel", add_put},
     {"ranks", "gantry-ranks", "List the ranks of groups, and the reasons of their waits",
      add_ranks},
     {"get", "gantry", "Write a channel to standard output", add_get},
     {"ls", "gantry", "List the channels, their senders and receivers", add_ls},
     {"top", "gantry-look", "Watch the channels: rates, depths, stuck ends", add_top},
     {"serve", "gantry-look", "Show the channels in a browser, and give metrics to Prometheus",
      add_serve},
     {"trace", "gantry-look", "Record events of channels, ranks, links, devices, for Perfetto",
      add_trace},
     {"bridge", "gantry-net", "Let other hosts reach this one's channels", add_bridge},
     {"mirror", "gantry-net", "Bring another host's channel here once, for all its readers",
      add_mirror},
     {"pack", "gantry-image", "Pack tensors of files into one image, which loads quickly",
      add_pack},
     {"image", "gantry-image",
      "List, verify, time or extract the tensors of an image that gantry pack made", add_image},
     {"keep", "gantry-image", "Keep images in memory for all who attach them", add_keep},
     {"doctor", "gantry-look",
      "Show the machine, which engines, transports, registrars, devices, ways to files, links, "
      "libraries for products of matrices, codecs of images, features of the kernel, bindings and "
      "metrics work, and how moves are executed",
      add_doctor},
     {"calibrate", "gantry-look", "Measure each engine's costs on this machine, and keep them",
      add_calibrate},
     {"bench", "gantry", "Measure: gantry bench NAME [options]", add_bench},
     {"pages", "gantry-pages", "Write the manual and shells' completions", add_pages, false}});

/// Parses the words, runs the command, and returns the exit status. To a person each of the
/// programs is `gantry`.
[[nodiscard]] int run_program(int argc, char** argv);

}  // namespace gantry::cli
