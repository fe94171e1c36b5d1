// The program `gantry` told wrongly, and asked for help: usage, and standard streams that are
// closed or full.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>

#include "cli_support.hpp"
#include "tools/gantry/commands.hpp"

namespace gantry::test {
namespace {

namespace fs = std::filesystem;
using cli::CommandRow;
using cli::kCommands;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// ---- wrong usage -------------------------------------------------------------------------------

TEST_F(Cli, ATypoGetsASuggestion) {
  const auto ended = run(gantry({"dcotor"}));
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("'dcotor'"));
  EXPECT_THAT(ended.errors, HasSubstr("'doctor'"));
  EXPECT_EQ(run(gantry({"image", "verfy", "x"})).errors,
            "gantry: command 'image verfy': there is no such command; did you mean 'verify'?\n");
  EXPECT_THAT(run(gantry({"plan", "expnd"})).errors, HasSubstr("; did you mean 'expand'?\n"));
  EXPECT_THAT(run(gantry({"image", "wibble"})).errors, HasSubstr("; known here: ls, verify, "));
}

TEST_F(Cli, WrongUsageIsOneLineAndTwo) {
  const std::vector<std::vector<std::string>> wrong{{},
                                                    {"put"},
                                                    {"--nope"},
                                                    {"put", "c", "--slots", "many"},
                                                    {"put", "c", "--slots", "0"},
                                                    {"put", "c", "--slots", "65"},
                                                    {"put", "c", "--slots", "-1"},
                                                    {"put", "c", "--slots", "4294967297"},
                                                    {"put", "c", "--message-size", "1Q"},
                                                    {"put", "c", "--message-size", "0"},
                                                    {"put", "c", "--message-size", "-1"},
                                                    {"put", "c", "--message-size", "8388608T"},
                                                    {"get", "c", "--count", "0"},
                                                    {"get", "c", "--count", "-1"},
                                                    {"get", "c", "--count", "many"},
                                                    {"get", "c", "--count", "1.5"},
                                                    {"get", "c", "--count", ""},
                                                    {"get", "c", "--count", "18446744073709551616"},
                                                    {"get", "c", "--timeout", "soon"},
                                                    {"get", "c", "--timeout", "9223372037"},
                                                    {"get", "c", "--timeout", "-1"},
                                                    {"get", "c", "extra"},
                                                    {"run", "x", "--connect-within", "0"},
                                                    {"ls", "--jsno"},
                                                    {"serve", "here"},
                                                    {"serve", "--listen"},
                                                    {"trace", "c", "extra"},
                                                    {"bench"}};
  for (const auto& arguments : wrong) {
    const auto ended = run(gantry(arguments));
    EXPECT_EQ(ended.status, 2) << ended.errors;
    EXPECT_THAT(ended.errors, IsOneLine());
    EXPECT_THAT(ended.output, IsEmpty());
  }
  expect_nothing_left();
}

TEST_F(Cli, AWrongNumberIsToldTheRightOnes) {
  EXPECT_THAT(run(gantry({"put", "c", "--slots", "65"})).errors,
              HasSubstr("--slots: '65': not a whole number from 1 to 64; see gantry put --help"));
  EXPECT_THAT(run(gantry({"get", "c", "--count", "0"})).errors,
              HasSubstr("--count: '0': not a whole number of at least 1; "));
  EXPECT_THAT(run(gantry({"run", "x", "--connect-within", "0s"})).errors,
              HasSubstr("--connect-within: '0s': no time; it must be more than 0, as in 60s; "));
  EXPECT_THAT(run(gantry({"--nope"})).errors, HasSubstr("--nope"));
}

// Whichever program a command is in.
TEST_F(Cli, EveryCommandOfTheTableHasHelpWithAnExample) {
  const std::string list = run(gantry({"--help"})).output;
  for (const CommandRow& row : kCommands) {
    const std::string name(row.name);
    EXPECT_EQ(list.find("\n  " + name + " ") != list.npos, row.is_listed) << name;
    const auto ended = run(gantry({name, "--help"}));
    EXPECT_EQ(ended.status, 0) << ended.errors;
    EXPECT_THAT(ended.output, StartsWith(std::string(row.summary).substr(0, 40)));
    EXPECT_THAT(ended.output, HasSubstr("Usage: gantry " + name + " ["));
    EXPECT_THAT(ended.output, HasSubstr("Example: ")) << name;
  }
  EXPECT_THAT(run(gantry({"--help"})).output, HasSubstr("Example: "));
  EXPECT_THAT(run(gantry({"--version"})).output, StartsWith("gantry "));
}

/// A copy of the program, in bin/ of a prefix.
class Copied : public Cli {
 protected:
  Copied() {
    fs::create_directory(prefix_.file("bin"));
    fs::copy_file(GANTRY_CLI, program_);
  }
  /// A program that prints its words.
  void add_script(const std::string& name) const {
    const fs::path path = prefix_.file(name);
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\necho \"$0:$*\"\nexit 7\n";
    fs::permissions(path, fs::perms::owner_all);
  }

  const ScratchDirectory prefix_;
  const std::string program_ = prefix_.file("bin/gantry");
};

TEST_F(Copied, ACommandIsHandedOverToItsProgramInLibexec) {
  add_script("libexec/gantry/gantry-run");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", "--help", "x"}, {"--help", "run"}, {"agent"}}) {
    std::vector<std::string> argv = {program_};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto ended = run({argv, {}, {}, {}, false, {}});
    EXPECT_EQ(ended.status, 7) << ended.errors;
    EXPECT_THAT(ended.output, HasSubstr(fmt::format("/gantry-run:{}\n", fmt::join(words, " "))));
  }
}

TEST_F(Copied, AProgramThatIsMissingIsToldInOneLine) {
  for (const CommandRow& row : kCommands) {
    if (row.program == "gantry") continue;
    const auto ended = run({{program_, std::string(row.name)}, {}, {}, {}, false, {}});
    EXPECT_EQ(ended.status, 1);
    EXPECT_EQ(ended.errors,
              fmt::format("gantry: command '{0}': there is no {1}/libexec/gantry/{2}; install the "
                          "package gantry-tools, or build it: tools/build release {2}\n",
                          row.name, prefix_.path(), row.program));
  }
}

// It finds benchmarks beside itself, and in libexec as an install has them.
TEST_F(Copied, BenchHandsOverToTheProgramOfThatName) {
  add_script("bin/gantry-bench-near");
  add_script("libexec/gantry/gantry-bench-far");
  for (const char* name : {"near", "far"}) {
    const auto ended = run({{program_, "bench", name, "--help", "x"}, {}, {}, {}, false, {}});
    EXPECT_EQ(ended.status, 7) << ended.errors;
    EXPECT_THAT(ended.output, HasSubstr(std::string("gantry-bench-") + name + ":--help x\n"));
  }
  const auto unknown = run({{program_, "bench", "nearr"}, {}, {}, {}, false, {}});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("far, near"));
  const auto python = run({{program_, "bench", "python"}, {}, {}, {}, false, {}});
  EXPECT_EQ(python.status, 2);
  EXPECT_THAT(python.errors,
              HasSubstr("'python': only a build tree with the Python package has it"));
}

TEST_F(Cli, AnUnknownBenchmarkIsNamedWithThoseThereAre) {
  const auto ended = run(gantry({"bench", "ipcc"}));
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("'ipcc'"));
}

// ---- standard streams --------------------------------------------------------------------------

TEST_F(Cli, HelpThatCannotBeWrittenFails) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"--version"}, {"put", "--help"}}) {
    Command command = gantry(arguments);
    command.output_path = "/dev/full";
    const auto ended = run(command);
    EXPECT_EQ(ended.status, 1) << arguments[0];
    EXPECT_THAT(ended.errors, IsOneLine());
    EXPECT_THAT(ended.errors, HasSubstr("standard output: No space left on device"));
  }
}

/// `gantry` as a shell starts it with one of its standard streams closed: "<&-", ">&-".
class ClosedStream : public Cli {
 protected:
  [[nodiscard]] Command with(const std::string& redirection, Command command) const {
    command.argv.insert(command.argv.begin(), {"sh", "-c", "exec \"$0\" \"$@\" " + redirection});
    return command;
  }
};

// Nobody else's descriptor may take the stream's place: an event in it would be read for ever.
TEST_F(ClosedStream, PutWithoutInputFails) {
  Subprocess get(gantry({"get", "c"}));
  const auto ended = run(with("<&-", gantry({"put", "c", "--wait-consumer"})));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("standard input: Bad file descriptor"));
  EXPECT_EQ(get.wait().value_or(Ended{}).status, 1);  // it is told that the stream broke off
  expect_nothing_left();
}

TEST_F(ClosedStream, GetWithoutOutputFails) {
  Subprocess putting(put({"c"}, "x"));
  const auto ended = run(with(">&-", gantry({"get", "c"})));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("standard output: Bad file descriptor"));
  ASSERT_TRUE(putting.wait());
  expect_nothing_left();
}

// An error for which there is no place is written nowhere, least of all into a channel's socket.
TEST_F(ClosedStream, BytesGoThroughWithoutTheOthers) {
  const std::string bytes = random_bytes(300000);
  Subprocess putting(with(">&- 2>&-", put({"c"}, bytes)));
  Subprocess get(with("<&- 2>&-", gantry({"get", "c"})));
  const auto received = get.wait();
  const auto sent = putting.wait();
  ASSERT_TRUE(received && sent);
  EXPECT_TRUE(received->output == bytes) << received->output.size() << " bytes came";
  EXPECT_EQ(received->status, 0);
  EXPECT_EQ(sent->status, 0);
}

TEST_F(ClosedStream, ReportsNeedAnOutput) {
  for (const char* command : {"--help", "--version", "doctor"}) {
    const auto ended = run(with(">&-", gantry({command})));
    EXPECT_EQ(ended.status, 1) << command;
    EXPECT_THAT(ended.errors, HasSubstr("standard output"));
  }
}

TEST_F(Cli, ADirectoryIsNoInput) {
  const auto ended = run({{"sh", "-c", std::string(GANTRY_CLI) + " put c < " + scratch_.path()},
                          {{"GANTRY_DIR", scratch_.path()}},
                          {},
                          {},
                          false,
                          {}});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("standard input: Is a directory"));
  expect_nothing_left();
}

}  // namespace
}  // namespace gantry::test
