#include "command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace gantry::bench {
namespace {

/// Everything that comes through a pipe, to its end.
std::string text_from(int pipe) {
  std::string said;
  std::array<char, 512> part{};
  for (;;) {
    const auto got = ::read(pipe, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    said.append(part.data(), static_cast<std::size_t>(got));
  }
  return said;
}

std::string first_line_of(const std::string& said) {
  return said.substr(0, said.find('\n'));
}

constexpr int kNowhere = -1;

/// Starts it with nothing to read, and with its complaints going to `errors`.
int spawn(std::vector<std::string>& words, int output, int errors, pid_t& pid) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (output == kNowhere)
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  else
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  const int failed = ::posix_spawnp(&pid, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  return failed;
}

/// Whether a program ended with status 0.
bool ends_well(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

Result<void> run_command(std::vector<std::string> words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Unexpected(system_error("pipe"));
  const Descriptor said(ends[0]);
  Descriptor errors(ends[1]);
  pid_t pid = -1;
  const int failed = spawn(words, kNowhere, errors.get(), pid);
  errors.reset();
  if (failed == ENOENT)
    return Unexpected({Code::not_found, fmt::format("there is no program '{}'", words.front()),
                       "install iproute2"});
  if (failed != 0) return Unexpected(system_error(words.front(), failed));
  const std::string why = first_line_of(text_from(said.get()));
  if (ends_well(pid)) return {};
  return Unexpected({Code::system, fmt::format("{}: {}", fmt::join(words, " "), why), {}});
}

Result<std::string> output_of(std::vector<std::string> words) {
  const Descriptor errors(::memfd_create("errors", MFD_CLOEXEC));  // only one pipe is read
  if (errors.get() < 0) return Unexpected(system_error("memfd_create"));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Unexpected(system_error("pipe"));
  const Descriptor said(ends[0]);
  Descriptor output(ends[1]);
  pid_t pid = -1;
  const int failed = spawn(words, output.get(), errors.get(), pid);
  output.reset();
  if (failed != 0) return Unexpected(system_error(words.front(), failed));
  std::string text = text_from(said.get());
  if (ends_well(pid)) return text;
  ::lseek(errors.get(), 0, SEEK_SET);
  return Unexpected({Code::system, first_line_of(text_from(errors.get())), {}});
}

}  // namespace gantry::bench
