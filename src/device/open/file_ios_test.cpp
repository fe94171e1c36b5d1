#include "device/open/file_ios.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace gantry {
namespace {

using ::testing::HasSubstr;

TEST(FileIos, AreListedWithWhatTheyAreOrWhatToDo) {
  for (const EngineStatus& status : file_ios()) {
    EXPECT_FALSE(status.why.empty()) << status.name;
    EXPECT_EQ(status.usable, status.mend.empty()) << status.name;
    const auto made = make_file_io(status.name);
    ASSERT_EQ(made.has_value(), status.usable) << status.name;
    if (made) {
      EXPECT_EQ((*made)->name(), status.name);
    }
  }
  EXPECT_TRUE(make_file_io("pread"));
  const Error unknown = make_file_io("mmap").error();
  EXPECT_EQ(unknown.code, Code::not_found);
  EXPECT_THAT(unknown.hint, HasSubstr("io_uring, pread"));
}

TEST(FileIos, DevicesHaveTheBest) {
  const auto runtime = Runtime::create();
  ASSERT_TRUE(runtime);
  const auto device = runtime->open_device("cpu");
  ASSERT_TRUE(device);
  ASSERT_NE((*device)->file_io(), nullptr);
  EXPECT_EQ((*device)->file_io()->name(), file_ios()[0].usable ? "io_uring" : "pread");
}

/// As containers do: io_uring_setup() answers `error`. For good: in a child.
bool forbid_rings(int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int plain_instead(int error) {
  if (!forbid_rings(error)) return 77;
  const auto ring = make_file_io("io_uring");
  if (ring || ring.error().code != Code::unsupported || ring.error().hint.empty()) return 1;
  const auto best = best_file_io();
  if (!best || (*best)->name() != "pread") return 2;
  return (*best)->about().find(ring.error().message) == std::string::npos ? 3 : 0;
}

TEST(FileIos, WhereRingsAreForbiddenThePlainWayStandsInAndSaysWhy) {
  for (const int error : {ENOSYS, EPERM}) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(plain_instead(error));
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no filters of system calls here";
    EXPECT_EQ(WEXITSTATUS(status), 0) << error;
  }
}

}  // namespace
}  // namespace gantry
