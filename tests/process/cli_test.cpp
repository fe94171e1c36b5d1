// The program `gantry` as a person or a script meets it: what goes in comes out, usage, reports.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <gantry/runtime.hpp>
#include <nlohmann/json.hpp>

#include "cli_support.hpp"

namespace gantry::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

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
