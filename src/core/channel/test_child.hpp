#pragma once  // channel/test_child.hpp: a second process for this module's tests.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "core/channel/test_support.hpp"

namespace gantry::test {

/// True if every other thread of this process sleeps.
inline bool others_sleep() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::all_of(begin(threads), end(threads), [](const auto& thread) {
    if (thread.path().filename() == std::to_string(::gettid())) return true;
    std::string stat;
    std::getline(std::ifstream(thread.path() / "stat"), stat);
    const std::size_t state = stat.rfind(')') + 2;
    return state >= stat.size() || stat[state] == 'S';
  });
}

/// Counts the open descriptors once no other thread is about to close one.
inline std::size_t descriptors_at_rest() {
  while (!others_sleep()) ::sched_yield();
  return open_descriptors();
}

/// A pipe on which a child waits until its parent lets it go on.
class Gate {
 public:
  Gate() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Gate() {
    for (const int end : ends_) ::close(end);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
  void wait() const {
    char byte = 0;
    if (::read(ends_[0], &byte, 1) != 1) ::_exit(99);
  }

 private:
  std::array<int, 2> ends_{};
};

inline bool is_crash(int signal) {
  return signal == SIGABRT || signal == SIGSEGV || signal == SIGBUS || signal == SIGILL ||
         signal == SIGFPE;
}

/// A forked process that reports over a pipe, so that nobody has to guess how far it is.
class Child {
 public:
  explicit Child(const std::function<void(const Child&)>& body) {
    EXPECT_EQ(::pipe(pipe_.data()), 0);
    // The sanitizers of GCC 12 leave their allocator locked in the child of a process whose other
    // threads were just allocating. A thread that never sleeps is none of ours: it would only poll.
    for (int looks = 0; looks < 10'000 && !others_sleep(); ++looks) ::sched_yield();
    pid_ = ::fork();
    if (pid_ != 0) {
      // so that a child that ends without a report is noticed
      ::close(std::exchange(pipe_[1], -1));
      return;
    }
    body(*this);
    ::_exit(0);
  }
  ~Child() {
    if (pid_ > 0) end(SIGKILL);
    ::close(pipe_[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void report() const { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }  // in the child
  void await_report() const {
    char byte = 0;
    EXPECT_EQ(::read(pipe_[0], &byte, 1), 1) << "it ended before";
  }
  [[noreturn]] static void hold() {  // in the child: until killed
    for (;;) ::pause();
  }
  void stop() const {  // returns when the child is stopped
    ::kill(pid_, SIGSTOP);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }  // -1: it has ended
  int end(int signal) {
    ::kill(pid_, signal);
    return wait();
  }
  int wait() {
    int status = 0;
    EXPECT_GT(::waitpid(std::exchange(pid_, -1), &status, 0), 0);
    EXPECT_FALSE(WIFSIGNALED(status) && is_crash(WTERMSIG(status)))
        << "the child crashed: signal " << WTERMSIG(status);
    return status;
  }

 private:
  std::array<int, 2> pipe_{};
  pid_t pid_ = -1;
};

}  // namespace gantry::test
