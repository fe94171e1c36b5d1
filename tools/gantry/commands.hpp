#pragma once  // tools/gantry/commands.hpp: the subcommands; each is one file, or one folder.

#include <CLI/CLI.hpp>

namespace gantry::cli {

/// Each adds its subcommand to `app`, with a callback that runs it and sets `exit_code`.
void add_agent(CLI::App& app, int& exit_code);  // run/agent.cpp
void add_bench(CLI::App& app, int& exit_code);
void add_bridge(CLI::App& app, int& exit_code);
void add_mirror(CLI::App& app, int& exit_code);
void add_calibrate(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_get(CLI::App& app, int& exit_code);
void add_image(CLI::App& app, int& exit_code);  // image/image.cpp
void add_keep(CLI::App& app, int& exit_code);   // image/keep.cpp
void add_ls(CLI::App& app, int& exit_code);
void add_pack(CLI::App& app, int& exit_code);   // image/pack.cpp
void add_pages(CLI::App& app, int& exit_code);  // pages/pages.cpp
void add_plan(CLI::App& app, int& exit_code);   // plan/plan.cpp
void add_put(CLI::App& app, int& exit_code);
void add_ranks(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);    // run/run.cpp
void add_serve(CLI::App& app, int& exit_code);  // serve/serve.cpp
void add_top(CLI::App& app, int& exit_code);
void add_trace(CLI::App& app, int& exit_code);  // trace/trace.cpp

}  // namespace gantry::cli
