#pragma once  // bench/support/program/test_program.hpp: a benchmark as a test starts it and looks
              // at it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "../system/posix.hpp"

namespace gantry::bench {

using nlohmann::json;
using Words = std::vector<std::string>;
using Names = std::set<std::string>;

inline std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct Ended {
  int status = -1;  // exit status; -1: a signal
  std::string output;
  std::string errors;
};

/// The program, started; what it says goes to files in `folder`. Killed and reaped when dropped.
class Program {
 public:
  static constexpr const char* kTemporary = "temporary";  // its TMPDIR, in `folder`

  Program(std::string path, const std::string& folder, Words arguments)
      : output_(folder + "/output"), errors_(folder + "/errors") {
    arguments.insert(arguments.begin(), std::move(path));
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output_.c_str(), kNew, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors_.c_str(), kNew, 0600);
    std::string temporary = "TMPDIR=" + folder + "/" + kTemporary;
    std::vector<char*> variables = {temporary.data()};  // the first of a name counts
    for (char** variable = environ; *variable != nullptr; ++variable)
      variables.push_back(*variable);
    variables.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &files, nullptr, argv.data(), variables.data()), 0);
    posix_spawn_file_actions_destroy(&files);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ <= 0) return;
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }

  /// Returns once it has written `text` to standard error; false when it ends before.
  [[nodiscard]] bool wait_for(const std::string& text) const {
    while (text_of(errors_).find(text) == std::string::npos) {
      siginfo_t end{};  // WNOWAIT: it stays for wait()
      ::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT);
      if (end.si_pid == pid_) return false;
      std::this_thread::yield();
    }
    return true;
  }

  Ended wait() {
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(pid_, -1), &status, 0) > 0, true);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(output_), text_of(errors_)};
  }

 private:
  std::string output_;
  std::string errors_;
  pid_t pid_ = -1;
};

/// Children of `pid`, as the kernel lists them.
inline std::vector<int> children_of(int pid) {
  const std::string id = std::to_string(pid);
  std::ifstream in("/proc/" + id + "/task/" + id + "/children");
  std::vector<int> children;
  for (int child = 0; in >> child;) children.push_back(child);
  return children;
}

inline bool runs(int pid) {
  return ::kill(pid, 0) == 0;
}

/// Whether files there never leave memory: no start from there is cold.
inline bool is_in_memory(const std::string& folder) {
  struct statfs facts{};
  return ::statfs(folder.c_str(), &facts) == 0 && facts.f_type == TMPFS_MAGIC;
}

/// The benchmark of that name: `gantry bench NAME` starts it.
inline std::string program_of_bench(const std::string& name) {
  return GANTRY_BENCH_PROGRAMS "/gantry-bench-" + name;
}

/// A benchmark whose temporary files go where only this test looks.
class BenchTest : public ::testing::Test {
 protected:
  explicit BenchTest(std::string name) : name_(std::move(name)) {}
  void SetUp() override { std::filesystem::create_directory(temporary_); }
  void TearDown() override { EXPECT_TRUE(std::filesystem::is_empty(temporary_)); }

  /// Removes what a benchmark left that was killed outright.
  void clear_temporary() const {
    for (const auto& entry : std::filesystem::directory_iterator(temporary_))
      std::filesystem::remove_all(entry);
  }

  [[nodiscard]] Program start(Words arguments) const {
    return Program(program_of_bench(name_), scratch_.path(), std::move(arguments));
  }
  [[nodiscard]] Ended run(Words arguments) const { return start(std::move(arguments)).wait(); }
  /// The document of one round; anything before or after it is an error.
  [[nodiscard]] json document_of(Words arguments) const {
    arguments.insert(arguments.begin(), {"--rounds", "1", "--json"});
    const Ended ended = run(std::move(arguments));
    EXPECT_EQ(ended.status, 0) << ended.errors;
    return json::parse(ended.output);
  }

  std::string name_;
  ScratchDirectory scratch_ = ScratchDirectory::create().value();
  std::string temporary_ = scratch_.path() + "/" + Program::kTemporary;
};

/// A run that goes on until it is stopped, with all its processes there.
class RunningBenchTest : public BenchTest {
 protected:
  using BenchTest::BenchTest;

  /// Waits for that label, and for as many processes at least.
  void begin(Words arguments, const std::string& label, std::size_t processes) {
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans come to us
    bench_.emplace(program_of_bench(name_), scratch_.path(), std::move(arguments));
    ASSERT_TRUE(bench_->wait_for(label));
    do {
      children_ = children_of(bench_->pid());
    } while (children_.size() < processes);
  }
  void expect_nobody_left() const {
    for (const int child : children_) EXPECT_FALSE(runs(child)) << child;
  }

  std::optional<Program> bench_;
  std::vector<int> children_;
};

/// Of the results of that metric (empty: of all), which names stand under `value` for each of
/// `key`.
inline std::map<std::string, Names> grouped(const json& document, const char* key,
                                            const char* value, const std::string& metric = {}) {
  std::map<std::string, Names> groups;
  for (const json& result : document.at("results"))
    if (metric.empty() || result.at("metric") == metric)
      groups[result.at(key)].insert(result.at(value).get<std::string>());
  return groups;
}

/// Which subjects have that metric in each case.
inline std::map<std::string, Names> subjects_by_case(const json& document,
                                                     const std::string& metric) {
  return grouped(document, "case", "subject", metric);
}

/// Why `subject` took no part; empty when nothing is said of it.
inline std::string reason_of(const json& document, const std::string& subject) {
  for (const json& one : document.at("skipped"))
    if (one.at("subject") == subject) return one.at("reason");
  return {};
}
inline bool is_skipped(const json& document, const std::string& subject) {
  return !reason_of(document, subject).empty();
}

/// What holds of every document of one round.
inline void expect_contract(const json& document, const std::string& bench) {
  EXPECT_EQ(document.at("bench"), bench);
  for (const char* fact : {"cpu_model", "cpus", "memory_bytes", "caches", "kernel"})
    EXPECT_TRUE(document.at("machine").contains(fact)) << fact;
  for (const json& result : document.at("results")) {
    EXPECT_GE(result.at("value").get<double>(), result.at("min").get<double>()) << result;
    EXPECT_LE(result.at("value").get<double>(), result.at("max").get<double>()) << result;
    EXPECT_EQ(result.at("rounds"), 1) << result;
    EXPECT_NE(result.at("unit"), "") << result;
    EXPECT_GT(result.at("bytes"), 0) << result;
  }
  for (const json& skipped : document.at("skipped")) EXPECT_NE(skipped.at("reason"), "") << skipped;
}

}  // namespace gantry::bench
