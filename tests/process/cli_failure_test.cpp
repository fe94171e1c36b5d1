// The program `gantry` refused, killed, interrupted or cut off: exit status, one line of error,
// nothing left behind.
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli_support.hpp"

namespace gantry::test {
namespace {

using ::testing::HasSubstr;

// ---- refusals ----------------------------------------------------------------------------------

TEST_F(Cli, ANameWithASlashIsRefused) {
  for (const char* command : {"put", "get"}) {
    const auto ended = run(gantry({command, "a/b"}));
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.errors, IsOneLine());
    EXPECT_THAT(ended.errors, HasSubstr("'a/b'"));
  }
  expect_nothing_left();
}

TEST_F(Cli, ANameWithANewlineStaysOneLine) {
  const auto ended = run(gantry({"put", "a\nb"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
}

TEST_F(Cli, WhatSpeaksToTerminalsIsNotPassedOn) {
  const auto ended = run(gantry({"image", "ls", "\033[31mx\x7f"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.errors, "gantry: ?[31mx?: No such file or directory\n");
  const auto c1 = run(gantry({"image", "ls",
                              "\xc2\x9b"
                              "31m\x9bx\xc3\xa9"}));
  EXPECT_EQ(c1.errors, "gantry: ?31m?x\xc3\xa9: No such file or directory\n");
}

TEST_F(Cli, AQuietBridgeSaysNothing) {
  const ScratchDirectory files;
  const std::string token = files.file("token"), socket = files.file("socket");
  std::ofstream(token) << "sixteen_letters_and_more\n";
  ASSERT_EQ(::chmod(token.c_str(), 0600), 0);
  Subprocess bridge(
      gantry({"bridge", "--quiet", "--listen", "unix:" + socket, "--token-file", token}));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(socket); }));
  bridge.signal(SIGINT);
  const auto ended = bridge.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 130);
  EXPECT_EQ(ended->output + ended->errors, "");
}

// What a program with raised rights (set-user-ID) reads is not told by its caller's environment.
TEST_F(Cli, WithRaisedRightsNoVariableNamesAPath) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives a program to another user";
  constexpr uid_t kNobody = 65534;
  const ScratchDirectory files;
  Command command = gantry({"doctor", "--json"});
  const std::string raised = files.file("gantry-look");
  // The program that has the command: `gantry` looks for it beside itself.
  std::filesystem::copy_file(
      std::filesystem::path(command.argv[0]).parent_path() / "../libexec/gantry/gantry-look",
      raised);
  command.argv[0] = raised;
  ASSERT_EQ(::chown(raised.c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(::chmod(raised.c_str(), 0755), 0);
  for (const char* const variable : {"GANTRY_DIR", "XDG_RUNTIME_DIR", "TMPDIR"})
    command.env.emplace_back(variable, files.file("of-the-caller"));
  EXPECT_THAT(run(command).output, HasSubstr("of-the-caller"));
  ASSERT_EQ(::chmod(raised.c_str(), 04755), 0);
  struct statvfs system{};
  ASSERT_EQ(::statvfs(raised.c_str(), &system), 0);
  const auto ended = run(command);
  if ((system.f_flag & ST_NOSUID) != 0 || ended.output.empty())
    GTEST_SKIP() << "a file system without set-user-ID, or no library for that user";
  EXPECT_THAT(ended.output, HasSubstr("\"/tmp/gantry-65534\"")) << ended.errors;
  EXPECT_THAT(ended.output, ::testing::Not(HasSubstr("of-the-caller")));
}

TEST_F(Cli, ASecondProducerIsRefused) {
  Subprocess first(put({"c"}, "x"));
  ASSERT_TRUE(listed("c"));
  const auto second = run(put({"c"}, "y"));
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.errors, IsOneLine());
  EXPECT_THAT(second.errors, HasSubstr("c"));
  EXPECT_EQ(run(gantry({"get", "c"})).output, "x");  // the first goes on undisturbed
}

TEST_F(Cli, ASecondConsumerIsRefused) {
  Command command = put({"c", "--lines"}, "x\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess first(gantry({"get", "c"}));
  ASSERT_TRUE(first.wait_output("x\n"));
  const auto second = run(gantry({"get", "c", "--timeout", "10"}));
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.errors, IsOneLine());
}

TEST_F(Cli, ADirectoryThatOthersCanWriteToIsRefused) {
  ASSERT_EQ(::chmod(scratch_.path().c_str(), 0777), 0);
  for (const char* command : {"put", "get"}) {
    const auto ended = run(gantry({command, "c"}));
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.errors, IsOneLine());
    EXPECT_THAT(ended.errors, HasSubstr(scratch_.path()));
    EXPECT_THAT(ended.errors, HasSubstr("chmod 700"));
  }
  expect_nothing_left();
}

TEST_F(Cli, ADirectoryThatCannotBeMadeIsNamed) {
  const std::string missing = scratch_.file("no/channels");
  for (const char* command : {"ls", "put", "get"}) {
    Command one = gantry({command});
    if (std::string(command) != "ls") one.argv.emplace_back("c");
    one.env.emplace_back("GANTRY_DIR", missing);
    const auto ended = run(one);
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.errors, IsOneLine());
    EXPECT_THAT(ended.errors, HasSubstr(missing + ": "));
    EXPECT_THAT(ended.errors, HasSubstr("No such file or directory"));
    EXPECT_THAT(ended.errors, HasSubstr("set GANTRY_DIR"));
  }
  expect_nothing_left();
}

// A folder whose whole path is longer than the kernel takes: what root cannot read either.
TEST_F(Cli, LsSaysWhatItCouldNotRead) {
  constexpr std::size_t kLong = PATH_MAX - 11;  // takes no "/run-1-aaaaaa" any more
  constexpr std::size_t kLongestName = 200;
  std::string deep = scratch_.path();
  while (deep.size() < kLong) {
    deep.append(1, '/').append(std::min(kLongestName, kLong - deep.size()), 'd');
    ASSERT_EQ(::mkdir(deep.c_str(), 0700), 0);
  }
  const int folder = ::open(deep.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::mkdirat(folder, "run-1-aaaaaa", 0700), 0);
  ::close(folder);
  const auto ended = run(gantry({"ls", "--directory", deep}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("/run-1-aaaaaa: File name too long"));
}

TEST_F(Cli, LsRemovesNoFileOfAnybody) {
  const std::string file = scratch_.file("notes.sock");
  const int made = ::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_GE(made, 0);
  ::close(made);
  EXPECT_EQ(run(gantry({"ls"})).status, 0);
  EXPECT_THAT(scratch_.entries(), ::testing::ElementsAre("notes.sock"));
}

TEST_F(Cli, AnUnknownEngineIsRefused) {
  Command command = put({"c"}, "x");
  command.env.emplace_back("GANTRY_ENGINE", "warp");
  const auto ended = run(command);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("'warp'"));
}

TEST_F(Cli, DoctorShowsAnEngineThatCannotBeHadAndAllElse) {
  Command command = gantry({"doctor"});
  command.env.emplace_back("GANTRY_ENGINE", "require:warp");
  const auto ended = run(command);
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, HasSubstr("engine asked for   GANTRY_ENGINE: engine 'warp'"));
  EXPECT_THAT(ended.output, HasSubstr("REGISTRAR"));
}

TEST_F(Cli, GetWithoutAProducerGivesUpInTime) {
  const auto ended = run(gantry({"get", "c", "--timeout", "0.05"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("'c'"));
  expect_nothing_left();
}

TEST_F(Cli, AFullDiskIsNamed) {
  Subprocess putting(put({"c"}, "x"));
  Command get = gantry({"get", "c"});
  get.output_path = "/dev/full";
  const auto ended = run(get);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("No space left"));

  Command doctor = gantry({"doctor"});
  doctor.output_path = "/dev/full";
  EXPECT_EQ(run(doctor).status, 1);
}

// ---- deaths and Ctrl-C -------------------------------------------------------------------------

TEST_F(Cli, AKilledPutEndsGetWithTheReason) {
  Command command = put({"c", "--lines"}, "first\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess get(gantry({"get", "c"}));
  ASSERT_TRUE(get.wait_output("first\n"));
  putting.signal(SIGKILL);
  EXPECT_EQ(putting.wait().value_or(Ended{}).signal, SIGKILL);
  const auto ended = get.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 1);
  EXPECT_THAT(ended->errors, IsOneLine());
  EXPECT_THAT(ended->errors, HasSubstr("'c'"));
  EXPECT_THAT(ended->errors, HasSubstr("producer"));
  EXPECT_EQ(run(gantry({"ls"})).status, 0);  // sweeps what the dead one could not remove
  EXPECT_TRUE(eventually([&] { return run(gantry({"ls"})).output.empty(); }));
  expect_nothing_left();
}

TEST_F(Cli, AKilledGetEndsPutWithTheReason) {
  Subprocess get(gantry({"get", "c"}));
  Command command = put({"c", "--lines"}, "first\n");
  command.keep_input = true;
  Subprocess putting(command);
  ASSERT_TRUE(get.wait_output("first\n"));
  get.signal(SIGKILL);
  ASSERT_TRUE(get.wait());
  putting.write_input("second\n");
  putting.close_input();
  const auto ended = putting.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 1);
  EXPECT_THAT(ended->errors, IsOneLine());
  EXPECT_THAT(ended->errors, HasSubstr("consumer"));
  expect_nothing_left();
}

class CtrlC : public Cli, public ::testing::WithParamInterface<int> {};

TEST_P(CtrlC, EndsBothAndLeavesNothing) {
  Command command = put({"c", "--lines"}, "first\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess get(gantry({"get", "c"}));
  ASSERT_TRUE(get.wait_output("first\n"));
  get.signal(GetParam());
  putting.signal(GetParam());
  for (auto* process : {&putting, &get}) {
    const auto ended = process->wait();
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->status, 130);
  }
  expect_nothing_left();
}

TEST_P(CtrlC, EndsPutThatWaitsForAConsumer) {
  Subprocess putting(put({"c"}, "x"));
  ASSERT_TRUE(listed("c"));
  putting.signal(GetParam());
  EXPECT_EQ(putting.wait().value_or(Ended{}).status, 130);
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Signals, CtrlC, ::testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& number) {
                           return std::string(::sigabbrev_np(number.param));
                         });

// Nobody reads get's output, so it is stuck in the middle of a message when the signal comes.
TEST_F(Cli, CtrlCEndsAGetWhoseOutputIsNotRead) {
  ScratchDirectory folder;
  const std::string fifo = folder.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int reader = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  Command command = gantry({"get", "c"});
  command.output_path = fifo;
  Subprocess get(command);
  Subprocess putting(put({"c"}, std::string(4 << 20, 'x')));
  EXPECT_TRUE(eventually([&] {
    int waiting = 0;
    return ::ioctl(reader, FIONREAD, &waiting) == 0 && waiting >= ::fcntl(reader, F_GETPIPE_SZ);
  }));
  get.signal(SIGINT);
  EXPECT_EQ(get.wait().value_or(Ended{}).status, 130);
  EXPECT_EQ(putting.wait().value_or(Ended{}).status, 1);  // it sees the consumer go
  ::close(reader);
  expect_nothing_left();
}

TEST_F(Cli, AReaderThatLeavesEndsGetQuietly) {
  Subprocess putting(put({"c"}, std::string(8 << 20, 'x')));
  const std::string pipeline =
      "{ " + std::string(GANTRY_CLI) + " get c; echo status $? >&2; } | head -c 10";
  const auto ended =
      run({{"sh", "-c", pipeline}, {{"GANTRY_DIR", scratch_.path()}}, {}, {}, false, {}});
  EXPECT_EQ(ended.output, std::string(10, 'x'));
  EXPECT_EQ(ended.errors, "status 141\n");
}

}  // namespace
}  // namespace gantry::test
