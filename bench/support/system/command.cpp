#include "command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace gantry::bench {
namespace {

/// The first line that comes through a pipe; reads it to its end.
std::string first_line_of(int pipe) {
  std::string said;
  std::array<char, 512> part{};
  for (;;) {
    const auto got = ::read(pipe, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    said.append(part.data(), static_cast<std::size_t>(got));
  }
  return said.substr(0, said.find('\n'));
}

/// Starts it with nothing to read, and with its complaints going to `errors`.
int spawn(std::vector<std::string>& words, int errors, pid_t& pid) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  const int failed = ::posix_spawnp(&pid, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  return failed;
}

}  // namespace

Result<void> run_command(std::vector<std::string> words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Unexpected(system_error("pipe"));
  const Descriptor said(ends[0]);
  Descriptor errors(ends[1]);
  pid_t pid = -1;
  const int failed = spawn(words, errors.get(), pid);
  errors.reset();
  if (failed == ENOENT)
    return Unexpected({Code::not_found, fmt::format("there is no program '{}'", words.front()),
                       "install iproute2"});
  if (failed != 0) return Unexpected(system_error(words.front(), failed));
  const std::string why = first_line_of(said.get());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Unexpected({Code::system, fmt::format("{}: {}", fmt::join(words, " "), why), {}});
}

}  // namespace gantry::bench
