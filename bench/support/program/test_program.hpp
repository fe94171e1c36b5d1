#pragma once  // bench/support/program/test_program.hpp: a benchmark as a test starts it and looks
              // at it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "../system/posix.hpp"

namespace gantry::bench {

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

  Program(std::string path, const std::string& folder, std::vector<std::string> arguments)
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

}  // namespace gantry::bench
