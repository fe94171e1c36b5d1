#include "fault/image_child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>

namespace gantry::fault {
namespace {

constexpr std::chrono::seconds kPatience{30};

/// As SIGKILL does, at a system call: the kernel ends all threads at once.
void die_at(int call) {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{program.size(), program.data()};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) std::abort();
}

std::array<Fd, 2> pipe_ends() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Broken("no pipe is to be had");
  return {Fd(ends[0]), Fd(ends[1])};
}

bool is_ready(int descriptor, Micros time) {
  pollfd entry{descriptor, POLLIN, 0};
  const timespec left{time.count() / 1'000'000, time.count() % 1'000'000 * 1000};
  return ::ppoll(&entry, 1, &left, nullptr) == 1;
}

}  // namespace

void Talk::tell() const {
  static_cast<void>(!::write(tells_, "t", 1));
}

void Talk::hear() const {
  char byte = 0;
  if (::read(hears_, &byte, 1) != 1) ::_exit(3);  // whoever started it is gone
}

Child::Child(std::string role, const Work& work, const Strike& strike)
    : role_(std::move(role)), born_(std::chrono::steady_clock::now()) {
  void* const shared =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw Broken("no memory is to be had");
  board_ = new (shared) Board;
  auto [told, tells] = pipe_ends();
  auto [hears, going] = pipe_ends();
  told_ = std::move(told);
  going_ = std::move(going);
  pid_ = ::fork();
  if (pid_ < 0) throw Broken("no process is to be had");
  if (pid_ == 0) live(work, strike, tells.get(), hears.get());
  process_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

Child::Child(Child&& other) noexcept
    : role_(std::move(other.role_)),
      board_(std::exchange(other.board_, nullptr)),
      pid_(std::exchange(other.pid_, -1)),
      process_(std::move(other.process_)),
      told_(std::move(other.told_)),
      going_(std::move(other.going_)),
      born_(other.born_) {}

Child::~Child() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (board_ != nullptr) ::munmap(board_, sizeof(Board));
}

void Child::live(const Work& work, const Strike& strike, int tells, int hears) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);  // SIGSYS leaves a file else
  arm_process(board_->counts, {.step = -1, .pass = strike.step});
  if (strike.call) die_at(*strike.call);
  std::string trouble;
  try {
    trouble = work(Talk(tells, hears));
  } catch (const std::exception& thrown) {
    trouble = thrown.what();
  }
  std::strncpy(board_->trouble.data(), trouble.c_str(), board_->trouble.size() - 1);
  ::_exit(trouble.empty() ? 0 : 1);
}

void Child::go() const {
  static_cast<void>(!::write(going_.get(), "g", 1));
}

void Child::await_told() {
  char byte = 0;
  if (!is_ready(told_.get(), kPatience)) hung("it says nothing");
  if (::read(told_.get(), &byte, 1) == 1) return;
  if (reap()) throw Broken(role_ + ": it was killed, by nobody here");
  throw Broken(role_ + ": it ended before it said anything");
}

bool Child::ends_within(Micros time) const {
  return is_ready(process_.get(), time);
}

bool Child::kill() {
  if (pid_ <= 0) throw Broken(role_ + ": it is killed twice");  // and -1 would be everybody
  ::kill(pid_, SIGKILL);
  return reap();
}

void Child::finish() {
  if (!ends_within(kPatience)) hung("it does not end");
  if (reap()) throw Broken(role_ + ": it was killed, by nobody here");
}

bool Child::reap() {
  if (!ends_within(kPatience)) hung("it was killed, and does not end");
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  process_.reset();
  const int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (by == SIGKILL || by == SIGSYS) return true;
  if (by != 0) throw Broken(fmt::format("{}: signal {} ended it", role_, by));
  if (WEXITSTATUS(status) != 0) throw Broken(fmt::format("{}: {}", role_, board_->trouble.data()));
  return false;
}

void Child::hung(const char* at) const {
  std::string where;
  std::error_code gone;
  for (const auto& task :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid_), gone)) {
    std::string call;
    std::getline(std::ifstream(task.path() / "syscall") >> std::ws, call);
    where += fmt::format("\n  thread {}: system call {}", task.path().filename().string(), call);
  }
  throw Broken(fmt::format("hang: {}: {}{}", role_, at, where));
}

std::uint64_t Child::steps() const noexcept {
  return board_->counts.total.load(std::memory_order_relaxed);  // it has ended
}

Micros Child::age() const noexcept {
  return std::chrono::duration_cast<Micros>(std::chrono::steady_clock::now() - born_);
}

}  // namespace gantry::fault
