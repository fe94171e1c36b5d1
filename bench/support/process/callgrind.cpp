#include "callgrind.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "../system/numbers.hpp"

namespace gantry::bench {
namespace {

constexpr std::string_view kCounts = "callgrind.out.";

/// Of the line "totals: N" (or "summary: N") that callgrind ends its file with.
std::optional<double> total_of(const std::string& path) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    for (const std::string_view key : {"totals: ", "summary: "})
      if (line.starts_with(key))
        return static_cast<double>(
            number_of<std::uint64_t>(std::string_view(line).substr(key.size())).value_or(0));
  return std::nullopt;
}

std::string own_path() {
  std::array<char, 4096> path{};
  const auto length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length <= 0 ? std::string{} : std::string(path.data(), static_cast<std::size_t>(length));
}

/// A program that runs until it ends or is interrupted; then it is killed. Its status, -1: none.
Result<int> run_to_end(std::vector<std::string> words, int interrupt_descriptor) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int failed = ::posix_spawnp(&pid, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0)
    return Unexpected(
        {Code::unsupported, system_error("valgrind", failed).message, "install valgrind"});
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  std::array<pollfd, 2> sources = {{{process.get(), POLLIN, 0}, {interrupt_descriptor, POLLIN, 0}}};
  while (::poll(sources.data(), sources.size(), -1) < 0 && errno == EINTR) {
  }
  const bool is_interrupted = sources[1].revents != 0;
  if (is_interrupted) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (is_interrupted) return Unexpected({Code::interrupted, "interrupted", ""});
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::vector<std::string> callgrind_words(const std::string& function, const std::string& into) {
  return {"valgrind", "--tool=callgrind", "--collect-atstart=no",
          "--toggle-collect=" + function + "*",
          "--callgrind-out-file=" + into + "/" + std::string(kCounts) + "%p"};
}

Result<double> take_count(const std::string& from) {
  double sum = 0;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(from))
    if (entry.path().filename().string().starts_with(kCounts)) files.push_back(entry.path());
  for (const auto& file : files) {
    sum += total_of(file).value_or(0);
    std::filesystem::remove(file);
  }
  if (sum > 0) return sum;
  return Unexpected({Code::unsupported, "callgrind counted nothing", ""});
}

Result<double> count_own(const std::string& function, const std::string& into,
                         const std::vector<std::string>& words, int interrupt_descriptor) {
  auto all = callgrind_words(function, into);
  all.push_back(own_path());
  all.insert(all.end(), words.begin(), words.end());
  const auto status = run_to_end(std::move(all), interrupt_descriptor);
  if (!status) return Unexpected(status.error());
  if (*status == 0) return take_count(into);
  return Unexpected({Code::system, "callgrind: exit status " + std::to_string(*status), ""});
}

}  // namespace gantry::bench
