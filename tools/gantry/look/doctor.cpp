// gantry doctor: the machine, its limits, and which parts of Gantry work on it.
#include <fmt/format.h>

#include <algorithm>
#include <gantry/gemm.hpp>
#include <gantry/image.hpp>
#include <gantry/link.hpp>
#include <gantry/runtime.hpp>
#include <gantry/stage.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "directory.hpp"
#include "errors.hpp"
#include "look/bindings.hpp"
#include "look/calibration_text.hpp"
#include "look/choices.hpp"
#include "metrics_support.hpp"
#include "output.hpp"
#include "tools/command_line/json_text.hpp"

namespace gantry::cli {
namespace {

using nlohmann::json;

constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();
constexpr Bytes kComfortableMemlock = Bytes{64} << 20;  // below it, pinning big buffers fails

struct DirectoryState {
  std::string path;
  bool exists = false;
  std::string problem;  // empty: usable
  std::string mend;
  std::size_t channels = 0;
};

struct Parts {
  const char* title;
  const char* key;  // of the JSON
  std::vector<EngineStatus> statuses;
};

struct Diagnosis {
  MachineFacts machine;
  DirectoryState directory;
  std::vector<Parts> parts;
  CalibrationStatus calibration;
  std::vector<ExplainedChoice> choices;
  std::string refused_engine;  ///< Why the wanted engine cannot be used; empty: it can.
};

// Only looks: nobody asked a doctor to make anything.
DirectoryState look_at_directory() {
  DirectoryState state;
  state.path = channel_directory_path();
  const auto blame = [&state](const Error& error) {
    state.problem = error.message;
    state.mend = error.hint;
    return state;
  };
  const auto exists = directory_exists(state.path);
  if (!exists) return blame(exists.error());
  state.exists = *exists;
  if (!state.exists) {
    const auto makeable = can_make_directory(state.path);
    return makeable ? state : blame(makeable.error());
  }
  const auto channels = list_channels(state.path);
  if (!channels) return blame(channels.error());
  state.channels = channels->size();
  return state;
}

std::vector<EngineStatus> registrars() {
  std::vector<EngineStatus> statuses;
  for (auto& found : probe_registrars())
    statuses.push_back(
        {std::move(found.name), found.usable, std::move(found.why), std::move(found.hint)});
  return statuses;
}

/// As src/core/trace/probes.hpp has it.
EngineStatus probes() {
#if !defined(GANTRY_NO_PROBES) && __has_include(<sys/sdt.h>)
  return {"probes", true, "bpftrace, perf and gdb find them in the library (USDT)", ""};
#else
  return {"probes", false, "built without <sys/sdt.h>",
          "build it with systemtap-sdt-dev and GANTRY_PROBES=ON"};
#endif
}

std::vector<EngineStatus> metrics() {
  if (kHasMetrics)
    return {{"prometheus", true, "gantry serve gives them at /metrics", ""}, probes()};
  return {{"prometheus", false, std::string(kNoMetrics), std::string(kMendMetrics)}, probes()};
}

Result<Diagnosis> diagnose() {
  auto runtime = Runtime::create();
  std::string refused;
  if (!runtime) {  // the wanted engine is impossible: the rest is shown all the same
    refused = to_string(runtime.error());
    runtime = Runtime::create({.directory = {}, .engine = "auto"});
  }
  if (!runtime) return tl::unexpected(runtime.error());
  return Diagnosis{probe_machine(),
                   look_at_directory(),
                   {{"ENGINE", "engines", runtime->engines()},
                    {"TRANSPORT", "transports", transports()},
                    {"REGISTRAR", "registrars", registrars()},
                    {"DEVICE", "devices", runtime->devices()},
                    {"FILE I/O", "file_io", file_ios()},
                    {"LINK", "links", links()},
                    {"GEMM", "gemm", list_gemm_libraries()},
                    {"CODEC", "codecs", list_codecs()},
                    {"KERNEL FEATURE", "kernel_features", kernel_features()},
                    {"BINDING", "bindings", probe_bindings()},
                    {"METRICS", "metrics", metrics()}},
                   runtime->calibration(),
                   explained_choices(*runtime),
                   std::move(refused)};
}

bool memlock_is_low(const MachineFacts& machine) {
  return machine.memlock_limit_bytes < kComfortableMemlock;
}

// ---- JSON ----------------------------------------------------------------------------------

json caches_json(const MachineFacts& machine) {
  json list = json::array();
  for (const auto& cache : machine.caches)
    list.push_back({{"level", cache.level}, {"bytes", cache.bytes}, {"count", cache.count}});
  return list;
}

json huge_pages_json(const MachineFacts& machine) {
  json list = json::array();
  for (const auto& size : machine.huge_pages)
    list.push_back({{"page_bytes", size.page_bytes}, {"total", size.total}, {"free", size.free}});
  return list;
}

json machine_json(const MachineFacts& machine) {
  const bool unlimited = machine.memlock_limit_bytes == kUnlimited;
  return {{"cpu_model", machine.cpu_model},
          {"cpus", machine.cpus},
          {"cpus_online", machine.cpus_online},
          {"cpu_quota", machine.cpu_quota > 0 ? json(machine.cpu_quota) : json()},
          {"numa_nodes", machine.numa_nodes},
          {"caches", caches_json(machine)},
          {"memory_bytes", machine.memory_bytes},
          {"memory_free_bytes", machine.memory_free_bytes},
          {"memlock_limit_bytes", unlimited ? json() : json(machine.memlock_limit_bytes)},
          {"huge_pages", huge_pages_json(machine)},
          {"transparent_huge_pages", machine.transparent_huge_pages},
          {"transparent_huge_pages_shared", machine.transparent_huge_pages_shared},
          {"kernel", machine.kernel}};
}

json statuses_json(const std::vector<EngineStatus>& statuses) {
  json list = json::array();
  for (const auto& status : statuses)
    list.push_back({{"name", status.name},
                    {"usable", status.usable},
                    {"why", status.why},
                    {"mend", status.mend}});
  return list;
}

std::string as_json(const Diagnosis& found) {
  const DirectoryState& directory = found.directory;
  json document{{"version", version()},
                {"machine", machine_json(found.machine)},
                {"directory",
                 {{"path", directory.path},
                  {"exists", directory.exists},
                  {"usable", directory.problem.empty()},
                  {"why", directory.problem},
                  {"mend", directory.mend},
                  {"channels", directory.channels}}},
                {"refused_engine", found.refused_engine},
                {"calibration", calibration_json(found.calibration)},
                {"choices", choices_json(found.choices)}};
  for (const Parts& parts : found.parts) document[parts.key] = statuses_json(parts.statuses);
  return json_text(document, 2) + "\n";
}

// ---- text ----------------------------------------------------------------------------------

std::string cpus_text(const MachineFacts& machine) {
  std::string text = fmt::format("{} of {} usable", machine.cpus, machine.cpus_online);
  if (machine.cpu_quota > 0)
    text += fmt::format(", the control group allows {:.3g}", machine.cpu_quota);
  return text;
}

std::string caches_text(const MachineFacts& machine) {
  std::string text;
  for (const auto& cache : machine.caches)
    text += fmt::format("{}L{} {} x {}", text.empty() ? "" : ", ", cache.level, cache.count,
                        format_bytes(cache.bytes));
  return text.empty() ? "not told" : text;
}

std::string memlock_text(const MachineFacts& machine) {
  if (machine.memlock_limit_bytes == kUnlimited) return "unlimited";
  return format_bytes(machine.memlock_limit_bytes) +
         (memlock_is_low(machine) ? " (low: raise it with `ulimit -l`, or memlock in "
                                    "/etc/security/limits.conf)"
                                  : "");
}

std::string huge_pages_text(const MachineFacts& machine) {
  std::string text;
  for (const auto& size : machine.huge_pages)
    text += fmt::format("{}{}: {} of {} free", text.empty() ? "" : ", ",
                        format_bytes(size.page_bytes), size.free, size.total);
  return text.empty() ? "none" : text;
}

std::string or_unknown(const std::string& text) {
  return text.empty() ? "not told" : text;
}

// Regions are shared memory unless asked otherwise, so the second setting counts for them.
std::string transparent_text(const MachineFacts& machine) {
  const std::string& shared = machine.transparent_huge_pages_shared;
  const bool never = shared == "never" || shared == "deny";
  return fmt::format("{}; shared memory: {}{}", or_unknown(machine.transparent_huge_pages),
                     or_unknown(shared),
                     never ? " (shareable regions get small pages: echo advise > /sys/kernel/mm/"
                             "transparent_hugepage/shmem_enabled)"
                           : "");
}

std::string directory_text(const DirectoryState& directory) {
  if (!directory.problem.empty())
    return fmt::format("NOT USABLE: {}{}{}", directory.problem, directory.mend.empty() ? "" : "; ",
                       directory.mend);
  if (!directory.exists)
    return fmt::format("{} (not there yet; the first channel makes it)", directory.path);
  return fmt::format("{} ({} channel{})", directory.path, directory.channels,
                     directory.channels == 1 ? "" : "s");
}

std::string facts_text(const Diagnosis& found) {
  const MachineFacts& machine = found.machine;
  Table table({{"MACHINE"}, {}});
  table.add({"processor", or_unknown(machine.cpu_model)});
  table.add({"CPUs", cpus_text(machine)});
  table.add({"NUMA nodes", fmt::to_string(machine.numa_nodes)});
  table.add({"caches", caches_text(machine)});
  table.add({"memory", fmt::format("{}, {} available", format_bytes(machine.memory_bytes),
                                   format_bytes(machine.memory_free_bytes))});
  table.add({"kernel", or_unknown(machine.kernel)});
  table.add({"runtime directory", directory_text(found.directory)});
  table.add({"gantry", std::string(version())});
  if (!found.refused_engine.empty()) table.add({"engine asked for", found.refused_engine});
  return table.text();
}

std::string memory_text(const MachineFacts& machine) {
  Table table({{"MEMORY"}, {}});
  table.add({"lockable memory", memlock_text(machine)});
  table.add({"huge pages", huge_pages_text(machine)});
  table.add({"transparent huge pages", transparent_text(machine)});
  return table.text();
}

bool is_missing(const EngineStatus& status) {
  return !status.usable;
}

std::string parts_text(const Parts& parts, bool problems_only) {
  Table table({{parts.title}, {"USABLE"}, {"WHY"}, {"HOW TO MEND"}});
  for (const auto& status : parts.statuses)
    if (!problems_only || is_missing(status))
      table.add({status.name, status.usable ? "yes" : "no", status.why, status.mend});
  return table.text() + "\n";
}

std::string policy_text(const Diagnosis& found) {
  const std::string costs = costs_text(found.calibration.calibration, 3);
  return calibration_facts_text(found.calibration) + "\n" + costs + (costs.empty() ? "" : "\n") +
         choices_text(found.choices);
}

// Why channels do not work here; empty: they do. All they need is a directory, memory to share and
// the engine that was asked for.
std::string what_channels_lack(const Diagnosis& found) {
  if (!found.directory.problem.empty()) return "runtime directory: " + found.directory.problem;
  if (!found.refused_engine.empty()) return found.refused_engine;
  for (const Parts& parts : found.parts)
    for (const EngineStatus& status : parts.statuses)
      if (is_missing(status) && (status.name == "memfd_create" || status.name == "gantry"))
        return fmt::format("{}: {}", status.name, status.why);
  return {};
}

std::string verdict(const Diagnosis& found, bool problems_only) {
  std::ptrdiff_t missing = 0;
  for (const Parts& parts : found.parts)
    missing += std::ranges::count_if(parts.statuses, is_missing);
  const std::string lack = what_channels_lack(found);
  return fmt::format(
      "{}; {} {} missing{}\n",
      lack.empty() ? "what channels need works" : "CHANNELS DO NOT WORK: " + lack,
      missing == 0 ? "nothing" : fmt::to_string(missing),
      missing == 0   ? "is"
      : missing == 1 ? "other thing is"
                     : "other things are",
      missing == 0 || problems_only ? "" : " (gantry doctor --problems shows them alone)");
}

std::string problems_text(const Diagnosis& found) {
  std::string text;
  if (!found.directory.problem.empty())
    text += fmt::format("runtime directory: {}\n\n", directory_text(found.directory));
  if (!found.refused_engine.empty())
    text += fmt::format("engine asked for: {}\n\n", found.refused_engine);
  for (const Parts& parts : found.parts)
    if (std::ranges::any_of(parts.statuses, is_missing)) text += parts_text(parts, true);
  return text + verdict(found, true);
}

std::string as_text(const Diagnosis& found) {
  std::string text = facts_text(found) + "\n" + memory_text(found.machine) + "\n";
  for (const Parts& parts : found.parts) text += parts_text(parts, false);
  return text + policy_text(found) + "\n" + verdict(found, false);
}

Result<void> doctor(bool json_wanted, bool problems_only) {
  const auto found = diagnose();
  if (!found) return tl::unexpected(found.error());
  if (json_wanted) return print(as_json(*found));
  return print(problems_only ? problems_text(*found) : as_text(*found));
}

}  // namespace

void add_doctor(const Command& command, int& exit_code) {
  auto json_wanted = std::make_shared<bool>(false);
  auto problems_only = std::make_shared<bool>(false);
  const auto json =
      command->add_flag("--json", *json_wanted, "One JSON document instead of tables");
  command->add_flag("--problems", *problems_only, "Only what is missing, and how to mend it")
      ->excludes(json);
  command->footer("Example: gantry doctor --problems");
  command->callback([json_wanted, problems_only, &exit_code] {
    const auto done = doctor(*json_wanted, *problems_only);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
