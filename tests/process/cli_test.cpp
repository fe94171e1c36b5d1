// The program `gantry` as a person or a script meets it: what goes in comes out, reports.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gantry/runtime.hpp>
#include <gantry/stage.hpp>
#include <nlohmann/json.hpp>

#include "cli_support.hpp"

namespace gantry::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
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

// ---- conversions -------------------------------------------------------------------------------

// Whole numbers that bf16 holds: its bytes are the upper ones of f32's, in the order of x86 and
// arm.
std::string small_numbers(std::size_t count, std::size_t from, std::size_t bytes_each) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(i % 255) - 127;
    all.append(reinterpret_cast<const char*>(&value) + from, bytes_each);
  }
  return all;
}

TEST_F(Cli, PutConvertsWhatItReads) {
  for (const char* mode : {"whole", "pipelined", "streamed", "immutable"}) {
    Subprocess putting(put({"c", "--as", "f32 -> bf16", "--mode", mode, "--message-size", "100003"},
                           small_numbers(500'000, 0, 4)));
    const auto received = run(gantry({"get", "c"}));
    EXPECT_TRUE(received.output == small_numbers(500'000, 2, 2)) << received.output.size();
    const auto sent = putting.wait().value_or(Ended{});
    EXPECT_EQ(sent.status, 0) << sent.errors;
  }
}

TEST_F(Cli, WhatIsNoWholeNumberOfElementsIsNamedAndAllElseArrives) {
  for (const char* mode : {"whole", "pipelined"}) {
    Subprocess putting(
        put({"c", "--as", "f32 -> bf16", "--mode", mode}, small_numbers(300'000, 0, 4) + "abc"));
    EXPECT_TRUE(run(gantry({"get", "c"})).output == small_numbers(300'000, 2, 2));
    const auto sent = putting.wait().value_or(Ended{});
    EXPECT_EQ(sent.status, 1);
    EXPECT_THAT(sent.errors, IsOneLine());
    EXPECT_THAT(sent.errors, HasSubstr("its last 3 B are too few to be converted, 'f32 -> bf16'"));
  }
  const auto small = run(put({"c", "--as", "f32 -> bf16", "--message-size", "3"}, "abc"));
  EXPECT_EQ(small.status, 1);
  EXPECT_THAT(small.errors, HasSubstr("a message of 3 B has no room"));
}

TEST_F(Cli, PutSaysWhichTypesThereAre) {
  const auto unknown = run(put({"c", "--as", "f32 -> bf17"}, ""));
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.errors, IsOneLine());
  EXPECT_THAT(unknown.errors, HasSubstr("--as: 'bf17' is no type of elements; there are u8 i8"));
  const auto half = run(put({"c", "--as", "bf16"}, ""));
  EXPECT_EQ(half.status, 2);
  EXPECT_THAT(half.errors, HasSubstr("say what it holds: \"f32 -> bf16\""));
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
    const StageEndpoint end{"data", output, Transport::gantry, 4, 0, {{"link-7", -1}}};
    command.env.emplace_back(kStageEndpointsVariable, encode_stage_endpoints(std::span(&end, 1)));
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

TEST_F(Cli, DoctorReportsEnginesTransportsAndMemory) {
  const auto ended = run(gantry({"doctor", "--json"}));
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const auto document = nlohmann::json::parse(ended.output);
  EXPECT_GE(document["machine"]["cpus"].get<int>(), 1);
  EXPECT_EQ(document["engines"][0]["name"], "inline");
  EXPECT_EQ(document["transports"].size(), 2u);
  EXPECT_EQ(document["directory"]["path"], scratch_.path());
  for (const std::string fact :
       {"memlock_limit_bytes", "huge_pages", "transparent_huge_pages_shared"})
    EXPECT_TRUE(document["machine"].contains(fact)) << fact;
  std::vector<std::string> names;
  for (const auto& registrar : document["registrars"]) {
    names.push_back(registrar["name"].get<std::string>());
    EXPECT_NE(registrar["why"], "") << registrar;
    EXPECT_EQ(registrar["usable"] == true, registrar["mend"] == "") << registrar;
  }
  EXPECT_THAT(names, ElementsAre("page-lock", "uring", "fabric-tcp", "fabric-shm", "cuda"));
  names.clear();
  for (const auto& device : document["devices"]) {
    names.push_back(device["name"].get<std::string>());
    EXPECT_NE(device["why"], "") << device;
    EXPECT_EQ(device["usable"] == true, device["mend"] == "") << device;
  }
  ASSERT_GE(names.size(), 2u);
  EXPECT_EQ(names[0], "cpu");
  EXPECT_THAT(names[1], ::testing::StartsWith("opencl"));
  EXPECT_EQ(document["file_io"][0]["name"], "io_uring");
  EXPECT_EQ(document["file_io"][1]["usable"], true);  // "pread"
  EXPECT_EQ(document["links"][0]["name"], "stream");
  EXPECT_EQ(document["gemm"][0]["name"], "openblas");
  EXPECT_EQ(document["gemm"][2]["usable"], true);  // "builtin"
  for (const auto& feature : document["kernel_features"])
    EXPECT_EQ(feature["usable"] == true, feature["mend"] == "") << feature;
  EXPECT_EQ(document["kernel_features"][0]["name"], "memfd_create");
  EXPECT_EQ(document["kernel_features"][0]["usable"], true);
  EXPECT_EQ(document["bindings"][0]["name"], "c");
  EXPECT_EQ(document["bindings"][1]["name"], "python");
  for (const auto& binding : document["bindings"])
    EXPECT_EQ(binding["usable"] == true, binding["mend"] == "") << binding;
  EXPECT_EQ(document["metrics"][0]["usable"] == true, document["metrics"][0]["mend"] == "");
  const auto text = run(gantry({"doctor"}));
  EXPECT_EQ(text.status, 0);
  for (const char* word :
       {"MACHINE", "ENGINE", "TRANSPORT", "MEMORY", "lockable memory", "huge pages", "REGISTRAR",
        "page-lock", "DEVICE", "FILE I/O", "LINK", "GEMM", "BINDING", "METRICS"})
    EXPECT_THAT(text.output, HasSubstr(word));
}

/// `gantry doctor` with packages and programs of the test's own.
class DoctorOfPython : public Cli {
 protected:
  void package(const std::string& name, const std::string& text) const {
    std::filesystem::create_directory(files_.file(name));
    std::ofstream(files_.file(name + "/__init__.py")) << text;
  }
  void program(const std::string& name, const std::string& text) const {
    std::ofstream(files_.file(name)) << "#!/bin/sh\n" << text << '\n';
    std::filesystem::permissions(files_.file(name), std::filesystem::perms::owner_all);
  }
  /// "why; mend".
  [[nodiscard]] std::string said(bool usable = false) const {
    Command doctor = gantry({"doctor", "--json"});
    doctor.env.emplace_back("PYTHONPATH", files_.path());
    doctor.env.emplace_back("PYTHONDONTWRITEBYTECODE", "1");
    doctor.env.emplace_back("PATH", files_.path() + ":" + std::getenv("PATH"));
    const auto ended = run(doctor);
    EXPECT_EQ(ended.status, 0) << ended.errors;
    const auto python = nlohmann::json::parse(ended.output)["bindings"][1];
    EXPECT_EQ(python["usable"], usable) << python;
    return python["why"].get<std::string>() + "; " + python["mend"].get<std::string>();
  }
  void SetUp() override {
    if (run({{"sh", "-c", "command -v python3"}, {}, {}, {}, false, {}}).status != 0)
      GTEST_SKIP() << "python3 is not installed";
  }

  ScratchDirectory files_;
};

TEST_F(DoctorOfPython, APackageOfAnotherVersion) {
  package("gantry", "__version__ = '0.0.1'\nprint('hello')\n");
  EXPECT_EQ(said(), "it is 0.0.1, this program is " + std::string(version()) +
                        "; install both of one version");
}

TEST_F(DoctorOfPython, APackageThatIsNone) {
  package("gantry", "raise ValueError('broken\\nby hand')\n");
  EXPECT_THAT(said(), StartsWith("ValueError: broken; install python3-gantry"));
  package("gantry", "import os; os._exit(0)\n");
  EXPECT_THAT(said(), StartsWith("python3 ends with 0 and does not say what gantry is to it; "
                                 "look at what this says: python3 -c 'import gantry'"));
}

TEST_F(DoctorOfPython, NumpyIsImported) {
  package("gantry", "__version__ = '" + std::string(version()) + "'\n");
  package("numpy", "raise ImportError('no libblas')\n");
  EXPECT_THAT(said(true), HasSubstr(", numpy does not work (ImportError: no libblas): arrays"));
  package("numpy", "raise ModuleNotFoundError('numpy')\n");
  EXPECT_THAT(said(true), HasSubstr(", no numpy: arrays need python3-numpy"));
  package("numpy", "__version__ = '7.8'\n");
  EXPECT_THAT(said(true), HasSubstr(", numpy 7.8"));
}

TEST_F(DoctorOfPython, ProgramsThatAreNoPython) {
  program("python3", "echo 1.2.3; echo python3 9.9");
  EXPECT_THAT(said(), StartsWith("python3 ends with 0 and does not say"));
  program("python3", "exit 3");
  EXPECT_THAT(said(), StartsWith("python3 ends with 3 and does not say"));
  program("timeout", "exit 124");
  EXPECT_THAT(said(), StartsWith("python3 does not import gantry within 10 s; look at"));
  program("timeout", "exit 127");
  EXPECT_EQ(said(), "python3 does not run; apt-get install python3");
}

// The last line counts what is missing, which --problems shows alone.
TEST_F(Cli, DoctorEndsWithItsVerdict) {
  const auto document = nlohmann::json::parse(run(gantry({"doctor", "--json"})).output);
  std::vector<std::string> usable, missing;
  for (const auto& parts : document)
    if (parts.is_array() && !parts.empty() && parts[0].contains("mend"))
      for (const auto& one : parts)
        (one["usable"] == true ? usable : missing).push_back(one["name"].get<std::string>());
  const std::string count = std::to_string(missing.size());
  const std::string words =
      missing.size() == 1 ? " other thing is missing" : " other things are missing";
  const std::string text = run(gantry({"doctor"})).output;
  const std::string last = text.substr(text.rfind('\n', text.size() - 2) + 1);
  const auto problems = run(gantry({"doctor", "--problems"}));
  EXPECT_EQ(problems.status, 0) << problems.errors;
  if (!missing.empty()) {
    EXPECT_EQ(last, "what channels need works; " + count + words +
                        " (gantry doctor --problems shows them alone)\n");
    EXPECT_THAT(problems.output,
                ::testing::EndsWith("\nwhat channels need works; " + count + words + "\n"));
  }
  for (const std::string& name : missing)
    EXPECT_THAT("\n" + problems.output, HasSubstr("\n" + name + " "));
  for (const std::string& name : usable)
    EXPECT_THAT("\n" + problems.output, Not(HasSubstr("\n" + name + " ")));
}

TEST_F(Cli, DoctorAndLsOnlyLook) {
  Command doctor = gantry({"doctor", "--json"});
  const std::string missing = scratch_.file("missing");
  doctor.env.emplace_back("GANTRY_DIR", missing);
  const auto ended = run(doctor);
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const auto directory = nlohmann::json::parse(ended.output)["directory"];
  EXPECT_EQ(directory["path"], missing);
  EXPECT_EQ(directory["exists"], false);
  EXPECT_EQ(directory["usable"], true);
  doctor.argv.pop_back();
  EXPECT_THAT(run(doctor).output, HasSubstr(missing + " (not there yet"));
  const auto listed = run(gantry({"ls", "--directory", missing}));
  EXPECT_EQ(listed.status, 0);
  EXPECT_THAT(listed.errors, HasSubstr("no channels in " + missing + ", which is not there yet"));
  expect_nothing_left();
}

// What those that only look call the directory, and the one that a producer makes, are one.
TEST_F(Cli, LookingNamesTheDirectoryThatAProducerMakes) {
  for (const char* variable : {"GANTRY_DIR", "XDG_RUNTIME_DIR", "TMPDIR"}) {
    const ScratchDirectory folder;
    const bool is_given = std::string(variable) == "GANTRY_DIR";
    const auto in_folder = [&](Command command) {
      for (const char* other : {"GANTRY_DIR", "XDG_RUNTIME_DIR", "TMPDIR"})
        command.env.emplace_back(other, "");
      command.env.emplace_back(variable, is_given ? folder.file("own") : folder.path());
      return command;
    };
    const auto before = run(in_folder(gantry({"doctor", "--json"})));
    ASSERT_EQ(before.status, 0) << before.errors;
    const std::string path = nlohmann::json::parse(before.output)["directory"]["path"];
    ASSERT_THAT(folder.entries(), IsEmpty()) << variable;
    Subprocess putting(in_folder(put({"c"}, "x")));
    EXPECT_EQ(run(in_folder(gantry({"get", "c"}))).output, "x");
    EXPECT_EQ(putting.wait().value_or(Ended{}).status, 0);
    ASSERT_EQ(folder.entries().size(), 1u);
    EXPECT_EQ(folder.file(folder.entries()[0]), path) << variable;
  }
}

TEST_F(Cli, DoctorSaysHowToMendTheDirectory) {
  ASSERT_EQ(::chmod(scratch_.path().c_str(), 0777), 0);
  const auto ended = run(gantry({"doctor"}));
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, HasSubstr("NOT USABLE"));
  EXPECT_THAT(ended.output, HasSubstr("chmod 700"));
  EXPECT_THAT(ended.output, HasSubstr("\nCHANNELS DO NOT WORK: runtime directory: "));
  EXPECT_THAT(run(gantry({"doctor", "--problems"})).output, HasSubstr("chmod 700"));
}

}  // namespace
}  // namespace gantry::test
