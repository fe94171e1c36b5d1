#include "support/subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>

namespace gantry::test {
namespace {

[[noreturn]] void raise_error(const std::string& what, int error_number) {
  throw std::runtime_error(what + ": " + std::generic_category().message(error_number));
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) raise_error("pipe", errno);
    read_end = ends[0];
    write_end = ends[1];
  }
};

void close_if_open(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

void never_block(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

// "NAME=value" for each variable: ours, with `extra` on top.
std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& extra) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    merged[text.substr(0, equals)] = equals == std::string::npos ? "" : text.substr(equals + 1);
  }
  for (const auto& [name, value] : extra) merged[name] = value;
  std::vector<std::string> list;
  list.reserve(merged.size());
  for (const auto& [name, value] : merged) list.emplace_back(name).append("=").append(value);
  return list;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// What posix_spawn is told; the child starts with no signal blocked and none ignored.
class SpawnPlan {
 public:
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void use(int descriptor, int as) {
    ::posix_spawn_file_actions_adddup2(&actions_, descriptor, as);
  }
  void output_to(const std::string& path) {
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, path.c_str(), O_WRONLY | O_CREAT,
                                       0600);
  }
  void start_in(const std::string& folder) {
    ::posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
  }
  pid_t spawn(const Command& command) {
    auto arguments = command.argv;
    auto environment = merged_environment(command.env);
    pid_t pid = -1;
    const int error = ::posix_spawnp(&pid, arguments[0].c_str(), &actions_, &attributes_,
                                     pointers(arguments).data(), pointers(environment).data());
    if (error != 0) raise_error(arguments[0], error);
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

// ---- one process and the thread that pumps its streams ---------------------------------------

struct Subprocess::Impl {
  pid_t pid = -1;
  int input = -1;   // where to write; -1: closed
  int output = -1;  // where to read; -1: ended
  int errors = -1;
  int wake = -1;  // eventfd: the pump has something new to do

  std::mutex mutex;
  std::condition_variable changed;
  std::string pending;  // input not yet written
  bool close_when_written = true;
  Ended ended;
  bool is_over = false;
  std::thread pump;

  explicit Impl(const Command& command);
  ~Impl();
  void run();
  bool turn();
  void wake_pump() const { ::eventfd_write(wake, 1); }
  void take(int& descriptor, std::string& into);
  void give();
  void reap();
};

Subprocess::Impl::Impl(const Command& command)
    : pending(command.input), close_when_written(!command.keep_input) {
  Pipe in, out, err;
  SpawnPlan plan;
  plan.use(in.read_end, STDIN_FILENO);
  if (command.output_path.empty())
    plan.use(out.write_end, STDOUT_FILENO);
  else
    plan.output_to(command.output_path);
  plan.use(err.write_end, STDERR_FILENO);
  if (!command.cwd.empty()) plan.start_in(command.cwd);
  wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  pid = plan.spawn(command);
  for (int* ours : {&in.read_end, &out.write_end, &err.write_end}) close_if_open(*ours);
  input = in.write_end;
  output = out.read_end;
  errors = err.read_end;
  for (const int descriptor : {input, output, errors}) never_block(descriptor);
  pump = std::thread([this] { run(); });
}

Subprocess::Impl::~Impl() {
  {
    const std::scoped_lock lock(mutex);
    if (!is_over) ::kill(pid, SIGKILL);  // not reaped yet, so the pid is still this process's
  }
  pump.join();
  for (int* descriptor : {&input, &output, &errors, &wake}) close_if_open(*descriptor);
}

void Subprocess::Impl::run() {
  // A program that reads no more must not end the tests.
  sigset_t pipe_only;
  ::sigemptyset(&pipe_only);
  ::sigaddset(&pipe_only, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_only, nullptr);
  while (turn()) {
  }
  reap();
}

// One round of moving bytes; false when the program has ended and all it said was read. A
// grandchild may hold the streams open, so the end of the process counts, not theirs.
bool Subprocess::Impl::turn() {
  siginfo_t gone{};
  ::waitid(P_PID, static_cast<id_t>(pid), &gone, WEXITED | WNOHANG | WNOWAIT);
  const bool over = gone.si_pid == pid;
  {
    const std::scoped_lock lock(mutex);
    take(output, ended.output);
    take(errors, ended.errors);
    give();
  }
  changed.notify_all();
  if (over) return false;
  const bool wants_out = [&] {
    const std::scoped_lock lock(mutex);
    return !pending.empty();
  }();
  std::array<pollfd, 4> entries{{{output, POLLIN, 0},
                                 {errors, POLLIN, 0},
                                 {wants_out ? input : -1, POLLOUT, 0},
                                 {wake, POLLIN, 0}}};
  constexpr int kLookForEndMs = 5;
  ::poll(entries.data(), entries.size(), kLookForEndMs);
  eventfd_t ignored = 0;
  ::eventfd_read(wake, &ignored);
  return true;
}

void Subprocess::Impl::take(int& descriptor, std::string& into) {
  std::array<char, 65536> piece;
  while (descriptor >= 0) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got > 0) into.append(piece.data(), static_cast<std::size_t>(got));
    if (got == 0) close_if_open(descriptor);
    if (got < 0 && errno != EINTR) return;
  }
}

void Subprocess::Impl::give() {
  while (input >= 0 && !pending.empty()) {
    const ssize_t written = ::write(input, pending.data(), pending.size());
    if (written > 0) pending.erase(0, static_cast<std::size_t>(written));
    if (written < 0 && errno == EAGAIN) return;
    if (written < 0 && errno != EINTR) pending.clear();  // it reads no more
  }
  if (pending.empty() && close_when_written) close_if_open(input);
}

void Subprocess::Impl::reap() {
  int status = 0;
  const std::scoped_lock lock(mutex);
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status)) ended.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  is_over = true;
  changed.notify_all();
}

// ---- the handle --------------------------------------------------------------------------------

Subprocess::Subprocess(const Command& command) : impl_(std::make_unique<Impl>(command)) {}
Subprocess::Subprocess(Subprocess&&) noexcept = default;
Subprocess& Subprocess::operator=(Subprocess&&) noexcept = default;
Subprocess::~Subprocess() = default;

int Subprocess::pid() const noexcept {
  return impl_->pid;
}

void Subprocess::write_input(std::string_view bytes) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->pending += bytes;
  impl_->wake_pump();
}

void Subprocess::close_input() {
  const std::scoped_lock lock(impl_->mutex);
  impl_->close_when_written = true;
  impl_->wake_pump();
}

void Subprocess::signal(int number) const {
  const std::scoped_lock lock(impl_->mutex);
  if (impl_->is_over || ::kill(impl_->pid, number) != 0 || number != SIGSTOP) return;
  siginfo_t stopped{};  // kill(2) returns before all threads stand still
  ::waitid(P_PID, static_cast<id_t>(impl_->pid), &stopped, WSTOPPED | WNOWAIT);
}

bool Subprocess::wait_output(std::string_view text, Wait limit) {
  std::unique_lock lock(impl_->mutex);
  const auto& output = impl_->ended.output;
  impl_->changed.wait_for(lock, limit,
                          [&] { return impl_->is_over || output.find(text) != std::string::npos; });
  return output.find(text) != std::string::npos;
}

bool Subprocess::wait_errors(std::string_view text, Wait limit) {
  std::unique_lock lock(impl_->mutex);
  const auto& errors = impl_->ended.errors;
  impl_->changed.wait_for(lock, limit,
                          [&] { return impl_->is_over || errors.find(text) != std::string::npos; });
  return errors.find(text) != std::string::npos;
}

std::optional<Ended> Subprocess::wait(Wait limit) {
  std::unique_lock lock(impl_->mutex);
  if (!impl_->changed.wait_for(lock, limit, [&] { return impl_->is_over; })) return std::nullopt;
  return impl_->ended;
}

Ended run(const Command& command, Subprocess::Wait limit) {
  Subprocess process(command);
  if (const auto ended = process.wait(limit)) return *ended;
  process.signal(SIGKILL);
  return process.wait().value_or(Ended{});
}

// ---- scratch directory -------------------------------------------------------------------------

ScratchDirectory::ScratchDirectory()
    : path_((std::filesystem::temp_directory_path() / "gantry-test-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) raise_error(path_, errno);
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchDirectory::file(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

std::vector<std::string> ScratchDirectory::entries() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

}  // namespace gantry::test
