// The program `gantry` as a person or a script meets it: exit status, one line of error, nothing
// left behind.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <gantry/runtime.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "support/subprocess.hpp"

namespace gantry::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

std::string random_bytes(std::size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class Cli : public ::testing::Test {
 protected:
  [[nodiscard]] Command gantry(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), GANTRY_CLI);
    Command command;
    command.argv = std::move(arguments);
    command.env = {{"GANTRY_DIR", scratch_.path()}, {"GANTRY_ENGINE", ""}};
    return command;
  }
  [[nodiscard]] Command put(std::vector<std::string> arguments, std::string input) const {
    arguments.insert(arguments.begin(), "put");
    Command command = gantry(std::move(arguments));
    command.input = std::move(input);
    return command;
  }
  /// Until the channel's producer listens.
  [[nodiscard]] bool listed(const std::string& name) const {
    return eventually([&] { return run(gantry({"ls"})).output.find(name) != std::string::npos; });
  }
  void expect_nothing_left() const { EXPECT_THAT(scratch_.entries(), IsEmpty()); }

  ScratchDirectory scratch_;
};

/// One line, by the contract "gantry: what: why[; hint]".
MATCHER(IsOneLine, "") {
  return arg.starts_with("gantry: ") && arg.ends_with("\n") &&
         std::count(arg.begin(), arg.end(), '\n') == 1;
}

// ---- bytes -------------------------------------------------------------------------------------

class Payloads : public Cli, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(Payloads, GoThroughUnchanged) {
  const std::string bytes = random_bytes(GetParam());
  Subprocess get(gantry({"get", "c"}));
  Subprocess putting(put({"c"}, bytes));
  const auto sent = putting.wait();
  const auto received = get.wait();
  ASSERT_TRUE(sent && received);
  EXPECT_EQ(sent->status, 0) << sent->errors;
  EXPECT_EQ(received->status, 0) << received->errors;
  EXPECT_TRUE(received->output == bytes) << received->output.size() << " bytes came";
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Sizes, Payloads, ::testing::Values(0, 1, 64, 65, (10 << 20) + 1));

TEST_F(Cli, PutMayComeFirst) {
  Subprocess putting(put({"c"}, "early"));
  ASSERT_TRUE(listed("c"));
  EXPECT_EQ(run(gantry({"get", "c"})).output, "early");
  EXPECT_EQ(putting.wait().value_or(Ended{}).status, 0);
}

TEST_F(Cli, MessagesHaveTheSizeAskedFor) {
  Subprocess putting(put({"c", "--message-size", "4K"}, random_bytes(10000)));
  EXPECT_EQ(run(gantry({"get", "c", "--count", "1"})).output, random_bytes(10000).substr(0, 4096));
}

TEST_F(Cli, LinesAreMessages) {
  const std::string lines = "one\n\nthree\nlast without newline";
  Subprocess putting(put({"c", "--lines"}, lines));
  Subprocess get(gantry({"get", "c"}));
  EXPECT_EQ(get.wait().value_or(Ended{}).output, lines);
  EXPECT_EQ(putting.wait().value_or(Ended{}).status, 0);

  Subprocess again(put({"c", "--lines"}, lines));
  EXPECT_EQ(run(gantry({"get", "c", "--count", "3"})).output, "one\n\nthree\n");
}

TEST_F(Cli, ALineArrivesWhileTheInputIsOpen) {
  Command command = put({"c", "--lines"}, "now\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess get(gantry({"get", "c"}));
  EXPECT_TRUE(get.wait_output("now\n"));
  putting.write_input("then\n");
  EXPECT_TRUE(get.wait_output("then\n"));
  putting.close_input();
  EXPECT_EQ(get.wait().value_or(Ended{}).status, 0);
}

TEST_F(Cli, ATooLongLineIsNamed) {
  const auto ended =
      run(put({"c", "--lines", "--message-size", "100"}, "short\n" + std::string(101, 'x')));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("line 2 is longer than 100 B"));
  EXPECT_THAT(ended.errors, HasSubstr("--message-size"));
}

TEST_F(Cli, TwoChannelsAtOnceStayApart) {
  Subprocess first(put({"a"}, random_bytes(300000)));
  Subprocess second(put({"b"}, random_bytes(500000)));
  Subprocess from_first(gantry({"get", "a"}));
  Subprocess from_second(gantry({"get", "b"}));
  EXPECT_TRUE(from_first.wait().value_or(Ended{}).output == random_bytes(300000));
  EXPECT_TRUE(from_second.wait().value_or(Ended{}).output == random_bytes(500000));
  EXPECT_EQ(first.wait().value_or(Ended{}).status, 0);
  EXPECT_EQ(second.wait().value_or(Ended{}).status, 0);
  expect_nothing_left();
}

// Under the name of an end of its stage, each uses what the launcher wired up.
TEST_F(Cli, PutAndGetAreStagesToo) {
  const auto as_stage = [&](Command command, bool output) {
    const StageEnd end{"data", output, Transport::gantry, 4, 0, {{"link-7", -1}}};
    command.env.emplace_back(kStageEndsVariable, encode_stage_ends(std::span(&end, 1)));
    return command;
  };
  const std::string bytes = random_bytes(3 << 20);
  Subprocess get(as_stage(gantry({"get", "data"}), false));
  Subprocess putting(as_stage(put({"data"}, bytes), true));
  EXPECT_TRUE(get.wait().value_or(Ended{}).output == bytes);
  EXPECT_EQ(putting.wait().value_or(Ended{}).status, 0);
  Subprocess wired(as_stage(put({"data"}, "x"), true));
  ASSERT_TRUE(listed("link-7"));  // not "data"
}

// ---- wrong usage -------------------------------------------------------------------------------

TEST_F(Cli, ATypoGetsASuggestion) {
  const auto ended = run(gantry({"dcotor"}));
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("'dcotor'"));
  EXPECT_THAT(ended.errors, HasSubstr("'doctor'"));
}

TEST_F(Cli, WrongUsageIsOneLineAndTwo) {
  const std::vector<std::vector<std::string>> wrong{{},
                                                    {"put"},
                                                    {"put", "c", "--slots", "many"},
                                                    {"put", "c", "--message-size", "1Q"},
                                                    {"put", "c", "--message-size", "0"},
                                                    {"get", "c", "--timeout", "soon"},
                                                    {"get", "c", "--timeout", "-1"},
                                                    {"get", "c", "extra"},
                                                    {"ls", "--jsno"},
                                                    {"bench"}};
  for (const auto& arguments : wrong) {
    const auto ended = run(gantry(arguments));
    EXPECT_EQ(ended.status, 2) << ended.errors;
    EXPECT_THAT(ended.errors, IsOneLine());
    EXPECT_THAT(ended.output, IsEmpty());
  }
}

TEST_F(Cli, EveryCommandHasHelpWithAnExample) {
  for (const char* name : {"run", "put", "get", "ls", "doctor", "bench"}) {
    const auto ended = run(gantry({name, "--help"}));
    EXPECT_EQ(ended.status, 0) << name;
    EXPECT_THAT(ended.output, HasSubstr("Example: ")) << name;
  }
  EXPECT_THAT(run(gantry({"--help"})).output, HasSubstr("Example: "));
  EXPECT_THAT(run(gantry({"--version"})).output, StartsWith("gantry "));
}

// A copy of the program finds benchmarks beside itself, and in libexec as an install has them.
TEST_F(Cli, BenchHandsOverToTheProgramOfThatName) {
  namespace fs = std::filesystem;
  const ScratchDirectory prefix;
  const auto add_script = [](const fs::path& path) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\necho \"$0:$*\"\nexit 7\n";
    fs::permissions(path, fs::perms::owner_all);
  };
  add_script(prefix.file("bin/gantry-bench-near"));
  add_script(prefix.file("libexec/gantry/gantry-bench-far"));
  const fs::path program = prefix.file("bin/gantry");
  fs::copy_file(GANTRY_CLI, program);
  for (const char* name : {"near", "far"}) {
    const auto ended = run({{program, "bench", name, "--help", "x"}, {}, {}, {}, false, {}});
    EXPECT_EQ(ended.status, 7) << ended.errors;
    EXPECT_THAT(ended.output, HasSubstr(std::string("gantry-bench-") + name + ":--help x\n"));
  }
  const auto unknown = run({{program, "bench", "nearr"}, {}, {}, {}, false, {}});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.errors, HasSubstr("far, near"));
}

TEST_F(Cli, AnUnknownBenchmarkIsNamedWithThoseThereAre) {
  const auto ended = run(gantry({"bench", "ipcc"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("'ipcc'"));
}

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

TEST_F(Cli, AnUnknownEngineIsRefused) {
  Command command = put({"c"}, "x");
  command.env.emplace_back("GANTRY_ENGINE", "warp");
  const auto ended = run(command);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("'warp'"));
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

INSTANTIATE_TEST_SUITE_P(Signals, CtrlC, ::testing::Values(SIGINT, SIGTERM),
                         [](const auto& number) {
                           return number.param == SIGINT ? "INT" : "TERM";
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

// ---- reports -----------------------------------------------------------------------------------

TEST_F(Cli, LsSaysWhenThereIsNothing) {
  const auto ended = run(gantry({"ls"}));
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, IsEmpty());
  EXPECT_THAT(ended.errors, HasSubstr("no channels in " + scratch_.path()));
}

TEST_F(Cli, LsShowsWhoHoldsWhat) {
  Command command = put({"c", "--lines", "--slots", "5"}, "first\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess get(gantry({"get", "c"}));
  ASSERT_TRUE(get.wait_output("first\n"));
  const auto document = nlohmann::json::parse(run(gantry({"ls", "--json"})).output);
  ASSERT_EQ(document["channels"].size(), 1u);
  const auto& channel = document["channels"][0];
  EXPECT_EQ(channel["name"], "c");
  EXPECT_EQ(channel["producer_pid"], putting.pid());
  EXPECT_EQ(channel["consumer_pid"], get.pid());
  EXPECT_EQ(channel["messages"], 1);
  EXPECT_EQ(channel["bytes"], 6);
  EXPECT_EQ(channel["slots"], 5);
  EXPECT_THAT(run(gantry({"ls"})).output, HasSubstr("CHANNEL"));
}

TEST_F(Cli, DoctorReportsEnginesAndTransports) {
  const auto ended = run(gantry({"doctor", "--json"}));
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const auto document = nlohmann::json::parse(ended.output);
  EXPECT_GE(document["machine"]["cpus"].get<int>(), 1);
  EXPECT_EQ(document["engines"][0]["name"], "inline");
  EXPECT_EQ(document["transports"].size(), 3u);
  EXPECT_EQ(document["directory"]["path"], scratch_.path());
  const auto text = run(gantry({"doctor"}));
  EXPECT_EQ(text.status, 0);
  for (const char* word : {"MACHINE", "ENGINE", "TRANSPORT", "lockable memory"})
    EXPECT_THAT(text.output, HasSubstr(word));
}

TEST_F(Cli, DoctorSaysHowToMendTheDirectory) {
  ASSERT_EQ(::chmod(scratch_.path().c_str(), 0777), 0);
  const auto ended = run(gantry({"doctor"}));
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, HasSubstr("NOT USABLE"));
  EXPECT_THAT(ended.output, HasSubstr("chmod 700"));
}

}  // namespace
}  // namespace gantry::test
