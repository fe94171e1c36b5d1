#pragma once  // tools/gantry/commands.hpp: the subcommands; each is one file, or one folder.

#include "tools/command_line/command.hpp"

namespace gantry::cli {

/// Each adds its subcommand to `app`, with a callback that runs it and sets `exit_code`.
void add_agent(const Command& app, int& exit_code);  // run/agent.cpp
void add_bench(const Command& app, int& exit_code);
void add_bridge(const Command& app, int& exit_code);
void add_mirror(const Command& app, int& exit_code);
void add_calibrate(const Command& app, int& exit_code);
void add_doctor(const Command& app, int& exit_code);
void add_get(const Command& app, int& exit_code);
void add_image(const Command& app, int& exit_code);  // image/image.cpp
void add_keep(const Command& app, int& exit_code);   // image/keep.cpp
void add_ls(const Command& app, int& exit_code);
void add_pack(const Command& app, int& exit_code);   // image/pack.cpp
void add_pages(const Command& app, int& exit_code);  // pages/pages.cpp
void add_plan(const Command& app, int& exit_code);   // plan/plan.cpp
void add_put(const Command& app, int& exit_code);
void add_ranks(const Command& app, int& exit_code);
void add_run(const Command& app, int& exit_code);    // run/run.cpp
void add_serve(const Command& app, int& exit_code);  // serve/serve.cpp
void add_top(const Command& app, int& exit_code);
void add_trace(const Command& app, int& exit_code);  // trace/trace.cpp

}  // namespace gantry::cli
