#include "run_support.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace gantry::test {
namespace {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The value of `name` in the environment that a process was started with.
std::string variable(const std::string& environment, const std::string& name) {
  std::size_t at = 0;
  while (at < environment.size()) {
    const std::string entry = environment.c_str() + at;
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    at += entry.size() + 1;
  }
  return {};
}

template <class Take>
void for_each_process(Take take) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // Zombies have no environment any more: they are not ours to find.
    const std::string environment = read_file(entry.path().string() + "/environ");
    if (!environment.empty()) take(std::stoi(name), environment);
  }
}

}  // namespace

std::string RunScratch::three_stages(std::uint64_t count, std::uint64_t bytes) {
  return "[stages.source]\n"
         "command = ['{stage}', 'source', '" +
         std::to_string(count) + "', '" + std::to_string(bytes) +
         "']\n"
         "[stages.relay]\n"
         "command = ['{stage}', 'relay']\n"
         "replicas = 2\n"
         "[stages.sink]\n"
         "command = ['{stage}', 'sink', '{out}']\n"
         "[channels.numbers]\n"
         "from = 'source'\n"
         "to = 'relay'\n"
         "slots = 4\n"
         "[channels.results]\n"
         "from = 'relay'\n"
         "to = 'sink'\n";
}

Command RunScratch::command(const std::string& text, std::vector<std::string> arguments) {
  const std::string file = directory_.file("pipeline.toml");
  std::ofstream(file) << text << "[settings]\nstage = '" << RUN_STAGE << "'\nout = '" << results()
                      << "'\n";
  Command command;
  command.argv = {GANTRY_CLI, "run", file};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.env = {{"GANTRY_DIR", channels()}};
  return command;
}

Ended RunScratch::run(const std::string& text, std::vector<std::string> arguments) {
  return test::run(command(text, std::move(arguments)));
}

std::string RunScratch::read_results() const {
  return read_file(results());
}

std::vector<StagePid> RunScratch::stages() const {
  std::vector<StagePid> result;
  for_each_process([&](int pid, const std::string& environment) {
    if (variable(environment, "GANTRY_DIR").starts_with(channels() + "/"))
      result.push_back(
          {pid, variable(environment, "GANTRY_STAGE"), variable(environment, "GANTRY_REPLICA")});
  });
  return result;
}

int RunScratch::pid_of(const std::string& stage, const std::string& replica) const {
  for (const StagePid& one : stages())
    if (one.stage == stage && one.replica == replica) return one.pid;
  return 0;
}

int RunScratch::guard_pid() const {
  int result = 0;
  const auto look = [&](int pid, const std::string& environment) {
    if (variable(environment, "GANTRY_DIR") == channels() &&
        read_file("/proc/" + std::to_string(pid) + "/comm") == "gantry-guard\n")
      result = pid;
  };
  // On a busy machine the stages may be there before the guard has taken its name.
  static_cast<void>(eventually([&] {
    for_each_process(look);
    return result != 0;
  }));
  return result;
}

std::vector<std::string> RunScratch::left_behind() const {
  std::vector<std::string> result;
  for_each_process([&](int pid, const std::string& environment) {
    if (variable(environment, "GANTRY_DIR").starts_with(channels()))
      result.push_back("process " + std::to_string(pid));
  });
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(channels(), error))
    result.push_back(entry.path().string());
  // Benchmarks and the oracle have their own folders there, and may run at the same time.
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find("gantry") != std::string::npos && !name.starts_with("gantry-bench-") &&
        !name.starts_with("gantry-oracle-"))
      result.push_back(entry.path().string());
  }
  return result;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
}

}  // namespace gantry::test
