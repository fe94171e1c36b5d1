#pragma once  // channel/test_child.hpp: a second process for this room's tests.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <utility>

namespace gantry::test {

/// A forked process that reports over a pipe, so that nobody has to guess how far it is.
class Child {
 public:
  explicit Child(const std::function<void(const Child&)>& body) {
    EXPECT_EQ(::pipe(pipe_.data()), 0);
    pid_ = ::fork();
    if (pid_ != 0) return;
    body(*this);
    ::_exit(0);
  }
  ~Child() {
    if (pid_ > 0) end(SIGKILL);
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void report() const { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }  // in the child
  void await_report() const {
    char byte = 0;
    EXPECT_EQ(::read(pipe_[0], &byte, 1), 1);
  }
  [[noreturn]] static void hold() {  // in the child: until killed
    for (;;) ::pause();
  }
  void stop() const {  // returns when it stands still
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
    return status;
  }

 private:
  std::array<int, 2> pipe_{};
  pid_t pid_ = -1;
};

}  // namespace gantry::test
