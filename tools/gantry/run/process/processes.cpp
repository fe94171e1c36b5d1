#include "run/process/processes.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

namespace gantry::run {
namespace {

constexpr unsigned long kExitingFlag = 0x4;  // PF_EXITING of the kernel's linux/sched.h

std::string read_stat(pid_t pid) {
  const Descriptor file(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t length = file ? ::read(file.get(), text.data(), text.size()) : -1;
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(length));
}

}  // namespace

std::optional<ProcessFacts> process_facts(pid_t pid) {
  const std::string text = read_stat(pid);
  const std::size_t name_end = text.rfind(')');  // the name may hold spaces and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  char state = '?';
  int session = 0;
  int terminal = 0;
  int terminal_group = 0;
  unsigned long flags = 0;
  ProcessFacts facts;
  facts.pid = pid;
  fields >> state >> facts.parent >> facts.group >> session >> terminal >> terminal_group >> flags;
  if (!fields) return std::nullopt;
  facts.dead = state == 'Z' || state == 'X';
  facts.exiting = (flags & kExitingFlag) != 0;
  return facts;
}

std::vector<ProcessFacts> all_processes() {
  std::vector<ProcessFacts> result;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  if (directory == nullptr) return result;
  while (const dirent* entry = ::readdir(directory.get())) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    if (const auto facts = process_facts(pid)) result.push_back(*facts);
  }
  return result;
}

std::vector<pid_t> live_followers(const std::vector<ProcessFacts>& processes, pid_t group) {
  std::vector<pid_t> result;
  for (const ProcessFacts& process : processes)
    if (process.group == group && process.pid != group && !process.dead)
      result.push_back(process.pid);
  return result;
}

std::vector<ProcessFacts> own_children() {
  std::vector<ProcessFacts> result = all_processes();
  std::erase_if(result, [](const ProcessFacts& one) { return one.parent != ::getpid(); });
  return result;
}

// glibc 2.36 declares pidfd_open() without C linkage.
Descriptor open_pidfd(pid_t pid) noexcept {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

pid_t reap_child(pid_t pid, Deadline until, rusage* usage) noexcept {
  constexpr timespec kPause{0, 2'000'000};  // a group has no descriptor to wait at
  for (;;) {
    const bool is_last = until.passed();
    const pid_t reaped = ::wait4(pid, nullptr, WNOHANG, usage);
    if (reaped > 0 || (reaped < 0 && errno != EINTR)) return reaped;
    if (is_last) return 0;
    ::nanosleep(&kPause, nullptr);
  }
}

}  // namespace gantry::run
