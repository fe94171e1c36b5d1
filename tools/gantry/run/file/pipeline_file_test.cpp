#include "run/file/pipeline_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/file/settings.hpp"

namespace gantry::run {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const Source kSource{"p.toml", "/folder"};

Result<Pipeline> parse(std::string_view text, const std::vector<Setting>& overrides = {}) {
  Mistakes mistakes;
  auto parsed = parse_pipeline(text, kSource, overrides, mistakes);
  if (const auto fine = mistakes.first(); !fine) return tl::unexpected(fine.error());
  return parsed;
}

/// "message; hint" of what must fail.
std::string error_of(std::string_view text, const std::vector<Setting>& overrides = {}) {
  const Result<Pipeline> parsed = parse(text, overrides);
  return parsed ? "was accepted" : gantry::to_string(parsed.error());
}

constexpr std::string_view kGood = R"(name = "vision"
[settings]
bin = "{here}/bin"
count = 3
exact = true
half = 0.5
type = "bf16"
input = "{bin}/in-{count}"

[stages.decode]
command = ["{bin}/decode", "{input}", "{exact}", "{half}", "{{x}}"]
environment = { THREADS = "{count}", LEVEL = 2 }

[stages.batch]
replicas = 2
command = ["batch"]

[stages.annotate]
command = ["annotate"]

[channels.frames]
from = "decode"
to = "batch"
slots = 16
as = "f32 -> {type}"
budget = "2GiB"

[channels.batches]
from = "batch"
to = "annotate"
)";

TEST(PipelineFile, KeepsTheOrderOfTheFileAndFillsSettingsIn) {
  const Result<Pipeline> parsed = parse(kGood);
  ASSERT_TRUE(parsed) << gantry::to_string(parsed.error());
  EXPECT_EQ(parsed->name, "vision");
  ASSERT_EQ(parsed->stages.size(), 3u);
  EXPECT_EQ(parsed->stages[0].name, "decode");
  EXPECT_THAT(parsed->stages[0].command,
              ElementsAre("/folder/bin/decode", "/folder/bin/in-3", "true", "0.5", "{x}"));
  ASSERT_EQ(parsed->stages[0].environment.size(), 2u);
  EXPECT_EQ(parsed->stages[0].environment[0].name, "THREADS");
  EXPECT_EQ(parsed->stages[0].environment[0].value, "3");
  EXPECT_EQ(parsed->stages[0].environment[1].value, "2");
  EXPECT_EQ(parsed->stages[1].name, "batch");
  EXPECT_EQ(parsed->stages[1].replicas, 2u);
  EXPECT_EQ(parsed->stages[2].name, "annotate");  // not sorted by name
}

TEST(PipelineFile, RanksAreReplicasOfAGroup) {
  const Result<Pipeline> parsed = parse(
      "[settings]\nn = 3\n[stages.a]\ncommand = ['x']\nranks = 256\n"
      "[stages.b]\ncommand = ['x']\nranks = '{n}'\n"
      "[stages.c]\ncommand = ['x']\nreplicas = 2\n");
  ASSERT_TRUE(parsed) << gantry::to_string(parsed.error());
  EXPECT_EQ(parsed->stages[0].replicas, 256u);
  EXPECT_TRUE(parsed->stages[0].is_group);
  EXPECT_EQ(parsed->stages[1].replicas, 3u);
  EXPECT_TRUE(parsed->stages[1].is_group);
  EXPECT_EQ(parsed->stages[2].replicas, 2u);
  EXPECT_FALSE(parsed->stages[2].is_group);
}

TEST(PipelineFile, ReadsChannels) {
  const Result<Pipeline> parsed = parse(kGood);
  ASSERT_TRUE(parsed) << gantry::to_string(parsed.error());
  ASSERT_EQ(parsed->channels.size(), 2u);
  EXPECT_EQ(parsed->channels[0].name, "frames");
  EXPECT_EQ(parsed->channels[0].from, 0u);
  EXPECT_EQ(parsed->channels[0].to, 1u);
  EXPECT_EQ(parsed->channels[0].slots, 16u);
  EXPECT_EQ(parsed->channels[0].budget_bytes, Bytes{2} << 30);
  EXPECT_EQ(parsed->channels[0].as, "f32 -> bf16");
  EXPECT_EQ(parsed->channels[1].slots, Channel::kDefaultSlots);
  EXPECT_EQ(parsed->channels[1].budget_bytes, 0u);
  EXPECT_EQ(parsed->channels[1].as, "");
}

TEST(PipelineFile, ALineOfShellRunsWithEveryProgramOfAPipeCounted) {
  const Result<Pipeline> parsed =
      parse("settings.in = 'x y'\nstages.a.shell = \"cat '{in}' | awk '{{print}}'\"");
  ASSERT_TRUE(parsed) << gantry::to_string(parsed.error());
  EXPECT_THAT(parsed->stages[0].command,
              ElementsAre("bash", "-o", "pipefail", "-c", "cat 'x y' | awk '{print}'"));
}

TEST(PipelineFile, IsNamedAfterItsFileByDefault) {
  const Result<Pipeline> parsed = parse("stages.a.command = ['x']");
  ASSERT_TRUE(parsed) << gantry::to_string(parsed.error());
  EXPECT_EQ(parsed->name, "p");
}

TEST(PipelineFile, OverridesReplaceSettingsLiterallyAndTheLastOneWins) {
  const Result<Pipeline> parsed = parse(kGood, {{"bin", "first"}, {"bin", "{out}"}});
  ASSERT_TRUE(parsed) << gantry::to_string(parsed.error());
  EXPECT_EQ(parsed->stages[0].command[0], "{out}/decode");
  EXPECT_EQ(parsed->stages[0].command[1], "{out}/in-3");
}

struct Bad {
  const char* name;
  const char* text;
  const char* begins;  // the place, and what is wrong
  const char* hints;   // part of the rest
};

std::ostream& operator<<(std::ostream& out, const Bad& bad) {
  return out << bad.text;
}

class BadPipelineFile : public testing::TestWithParam<Bad> {};

TEST_P(BadPipelineFile, IsRefusedWithPlaceReasonAndHint) {
  const std::string error = error_of(GetParam().text);
  EXPECT_THAT(error, StartsWith(GetParam().begins));
  EXPECT_THAT(error, HasSubstr(GetParam().hints));
  EXPECT_THAT(error, testing::Not(HasSubstr("\n")));
}

#define TWO_STAGES "stages.a.command = ['a']\nstages.b.command = ['b']\n"

const Bad kBad[] = {
    {"NotToml", "name = \n", "p.toml:1:8: not a pipeline file: ", "must be TOML"},
    {"NotTomlLater", "name = 'x'\n[stages.a\n", "p.toml:2:10: not a pipeline file: ", "TOML"},
    {"Nothing", "", "p.toml:1:1: stages: the pipeline has none", "[stages.NAME]"},
    {"NoStages", "\n[stages]\n", "p.toml:2:2: stages: the pipeline has none", "[stages.NAME]"},
    {"UnknownKey", "nmae = 'x'\n", "p.toml:1:1: nmae: unknown key", "did you mean 'name'?"},
    {"FarKey", "wibble = 1\n", "p.toml:1:1: wibble: unknown key",
     "known here: name, settings, hosts, stages, channels"},
    {"UnknownStageKey", "[stages.a]\ncommand = ['a']\n  replica = 2\n",
     "p.toml:3:3: stages.a.replica: unknown key", "did you mean 'replicas'?"},
    {"UnknownChannelKey", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nslot = 1\n",
     "p.toml:6:1: channels.c.slot: unknown key", "did you mean 'slots'?"},
    {"NameIsNumber", "name = 1\n", "p.toml:1:8: name: is a whole number, not a string", ""},
    {"SettingsIsNumber", "settings = 1\n", "p.toml:1:12: settings: is a whole number, not a table",
     ""},
    {"SettingIsList", "[settings]\nx = [1]\n",
     "p.toml:2:5: settings.x: is a list, not a string, a number", ""},
    {"SettingIsDate", "[settings]\nx = 2020-01-01\n",
     "p.toml:2:5: settings.x: is a date or time, not a string", ""},
    {"SettingHere", "[settings]\nhere = 'x'\n",
     "p.toml:2:1: settings.here: is always the folder of the file", "choose another name"},
    {"SettingName", "[settings]\n'a b' = 'x'\n",
     "p.toml:2:1: settings.a b: is no name for a setting", "use letters"},
    {"SettingOfLaterSetting", "[settings]\na = '{b}'\nb = 'x'\n",
     "p.toml:2:5: settings.a: there is no setting 'b'", "write {key} for a setting"},
    {"StageIsNumber", "stages.a = 1\n", "p.toml:1:12: stages.a: is a whole number, not a table",
     ""},
    {"StageName", "[stages.'a/b']\ncommand = ['x']\n",
     "p.toml:1:9: stages.a/b: is no name for a stage", "use up to 64 letters"},
    {"StageTwice", "[stages.a]\ncommand = ['x']\n[stages.a]\n", "p.toml:3:", "not a pipeline file"},
    {"NoCommand", "[stages.a]\nreplicas = 2\n", "p.toml:1:9: stages.a.command: is missing",
     "write command = [\"program\""},
    {"CommandIsEmpty", "[stages.a]\ncommand = []\n", "p.toml:2:11: stages.a.command: is empty", ""},
    {"CommandHoldsNumber", "[stages.a]\ncommand = ['x', 1]\n",
     "p.toml:2:17: stages.a.command: holds a whole number, not a string", "put it in quotes"},
    {"EmptyProgram", "[stages.a]\ncommand = ['']\n",
     "p.toml:2:12: stages.a.command: the program is empty", ""},
    {"UnknownSubstitution", "[settings]\ninput = 'x'\n[stages.a]\ncommand = ['x', '{inptu}']\n",
     "p.toml:4:17: stages.a.command: there is no setting 'inptu'", "did you mean 'input'?"},
    {"CommandIsString", "[stages.a]\ncommand = 'seq 1 5 | wc'\n",
     "p.toml:2:11: stages.a.command: is a string, not a list",
     "command = [\"program\", \"argument\"], or a line of shell: shell = \"...\""},
    {"ShellBesideCommand", "[stages.a]\ncommand = ['x']\nshell = 'x'\n",
     "p.toml:3:1: stages.a.shell: stands beside a command", "keep one"},
    {"ShellIsList", "[stages.a]\nshell = ['x']\n",
     "p.toml:2:9: stages.a.shell: is a list, not a string", ""},
    {"OpenBraceInShell", "[stages.a]\nshell = 'awk {print}'\n",
     "p.toml:2:9: stages.a.shell: there is no setting 'print'", "{{ or }} for a brace"},
    {"OpenBrace", "[stages.a]\ncommand = ['x', 'a {b']\n",
     "p.toml:2:17: stages.a.command: a '{' is never closed", "{{ or }} for a brace"},
    {"LoneBrace", "[stages.a]\ncommand = ['x', 'a } b']\n",
     "p.toml:2:17: stages.a.command: a '}' was never opened", "{{ or }} for a brace"},
    {"ZeroCharacter", "[stages.a]\ncommand = ['x', \"a\\u0000b\"]\n",
     "p.toml:2:17: stages.a.command: holds a zero character", ""},
    {"NoReplicas", "[stages.a]\ncommand = ['x']\nreplicas = 0\n",
     "p.toml:3:12: stages.a.replicas: 0 is not within 1 and 64", ""},
    {"ManyReplicas", "[stages.a]\ncommand = ['x']\nreplicas = 65\n",
     "p.toml:3:12: stages.a.replicas: 65 is not within 1 and 64", ""},
    {"NoRanks", "[stages.a]\ncommand = ['x']\nranks = 0\n",
     "p.toml:3:9: stages.a.ranks: 0 is not within 1 and 256", ""},
    {"ManyRanks", "[settings]\nn = 257\n[stages.a]\ncommand = ['x']\nranks = '{n}'\n",
     "p.toml:5:9: stages.a.ranks: '257' is no number from 1 to 256", "it comes from \"{n}\""},
    {"RanksThatAreAWord", "[stages.a]\ncommand = ['x']\nranks = 'two'\n",
     "p.toml:3:9: stages.a.ranks: 'two' is no number from 1 to 256", ""},
    {"RanksBesideReplicas", "[stages.a]\ncommand = ['x']\nreplicas = 2\nranks = 2\n",
     "p.toml:4:1: stages.a.ranks: stands beside replicas", "keep one of the two"},
    {"RanksIsList", "[stages.a]\ncommand = ['x']\nranks = [2]\n",
     "p.toml:3:9: stages.a.ranks: is a list, not a whole number from 1 to 256", ""},
    {"ReplicasIsReal", "[stages.a]\ncommand = ['x']\nreplicas = 1.5\n",
     "p.toml:3:12: stages.a.replicas: is a number ('1.5'), not a whole number from 1 to 64", ""},
    {"OwnVariable", "[stages.a]\ncommand = ['x']\nenvironment = { GANTRY_DIR = '/tmp' }\n",
     "p.toml:3:17: stages.a.environment.GANTRY_DIR: is set by gantry run", "choose another"},
    {"VariableName", "[stages.a]\ncommand = ['x']\nenvironment = { 'A=B' = '/tmp' }\n",
     "p.toml:3:17: stages.a.environment.A=B: is no name for an environment variable", ""},
    {"VariableIsList", "[stages.a]\ncommand = ['x']\nenvironment = { A = [] }\n",
     "p.toml:3:21: stages.a.environment.A: is a list, not a string", ""},
    {"DanglingFrom", TWO_STAGES "[channels.c]\nfrom = 'aa'\nto = 'b'\n",
     "p.toml:4:8: channels.c.from: there is no stage 'aa'", "did you mean 'a'?"},
    {"DanglingTo", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'elsewhere'\n",
     "p.toml:5:6: channels.c.to: there is no stage 'elsewhere'", "known here: a, b"},
    {"NoFrom", TWO_STAGES "[channels.c]\nto = 'b'\n", "p.toml:3:11: channels.c.from: is missing",
     "add from = \"...\""},
    {"ChannelName", TWO_STAGES "[channels.'c/d']\nfrom = 'a'\nto = 'b'\n",
     "p.toml:3:11: channels.c/d: is no name for a channel", "use up to 64 letters"},
    {"ChannelIsString", TWO_STAGES "channels.c = 'a -> b'\n",
     "p.toml:3:14: channels.c: is a string, not a table", ""},
    {"ToItself", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'a'\n",
     "p.toml:3:11: channels.c.to: leads from 'a' back to 'a'", "connects two stages"},
    {"Cycle",
     TWO_STAGES "stages.c.command = ['c']\n[channels.x]\nfrom = 'a'\nto = 'b'\n[channels.y]\n"
                "from = 'b'\nto = 'c'\n[channels.z]\nfrom = 'c'\nto = 'a'\n",
     "p.toml:10:11: channels.z: closes a cycle: c -> a -> b -> c", "remove one"},
    {"NoSlots", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nslots = 0\n",
     "p.toml:6:9: channels.c.slots: 0 is not within 1 and 64", ""},
    {"SlotsAreAWord", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nslots = 'many'\n",
     "p.toml:6:9: channels.c.slots: is a string ('many'), not a whole number from 1 to 64", ""},
    {"ManySlots", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nslots = 65\n",
     "p.toml:6:9: channels.c.slots: 65 is not within 1 and 64", ""},
    {"Budget", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nbudget = 'much'\n",
     "p.toml:6:10: channels.c.budget: 'much' is not a size", "2GiB"},
    {"NoBudget", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nbudget = 0\n",
     "p.toml:6:10: channels.c.budget: '0' is not a size", "2GiB"},
    {"AsNoType", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nas = 'bf17'\n",
     "p.toml:6:6: channels.c.as: 'bf17' is no type", "bf16"},
    {"AsFromNoType", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nas = 'float -> bf16'\n",
     "p.toml:6:6: channels.c.as: 'float' is no type", "f32"},
    {"AsWithoutSetting", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nas = '{type}'\n",
     "p.toml:6:6: channels.c.as: ", "type"},
    {"AsIsNumber", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nas = 16\n",
     "p.toml:6:6: channels.c.as: is a whole number, not a string", ""},
    {"UnknownHost", "[hosts.bb]\naddress = '10.0.0.2'\n[stages.a]\ncommand = ['x']\nhost = 'b'\n",
     "p.toml:5:8: stages.a.host: there is no host 'b'", "did you mean 'bb'?"},
    {"NoHosts", "[stages.a]\ncommand = ['x']\nhost = 'b'\n",
     "p.toml:3:8: stages.a.host: there is no host 'b'", "add [hosts.b] with address"},
    {"HostWithoutAddress", "[hosts.b]\nlaunch = ['x']\n", "p.toml:1:8: hosts.b.address: is missing",
     "add address = "},
    {"HostKey", "[hosts.b]\nadress = 'x'\n", "p.toml:2:1: hosts.b.adress: unknown key",
     "did you mean 'address'?"},
    {"HostPort", "[hosts.b]\naddress = 'x:99999'\n",
     "p.toml:2:11: hosts.b.address: host 'x:99999': '99999' is no port", "write HOST"},
    {"HostThatIsASocket", "[hosts.b]\naddress = 'unix:/x'\n",
     "p.toml:2:11: hosts.b.address: a socket's path is no host", "write HOST"},
    {"HostThatIsAnOption", "[hosts.b]\naddress = '-oProxyCommand=x'\n",
     "p.toml:2:11: hosts.b.address: host '-oProxyCommand=x': there is no host of that name", ""},
    {"HostsOfWhichOneEncrypts", "[hosts.b]\naddress = 'tls:x'\n[hosts.c]\naddress = 'y'\n",
     "p.toml:3:8: hosts.c.address: 'y' where b has 'tls:x': all hosts encrypt, or none",
     "put tls: in front of each address"},
    {"RankThatEncrypts", "[hosts.b]\naddress = 'tls:x'\nrank = 1\n",
     "p.toml:1:8: hosts.b.address: 'tls:x' with rank = 1: a rank is told its token in clear",
     "start the host by launch = ['ssh', ...], or leave tls: out"},
    {"HostLaunchesNothing", "[hosts.b]\naddress = 'x'\nlaunch = []\n",
     "p.toml:3:10: hosts.b.launch: is empty", ""},
    {"BudgetIsBoolean", TWO_STAGES "[channels.c]\nfrom = 'a'\nto = 'b'\nbudget = true\n",
     "p.toml:6:10: channels.c.budget: is true or false, not a size", ""},
};

INSTANTIATE_TEST_SUITE_P(All, BadPipelineFile, testing::ValuesIn(kBad),
                         [](const auto& one) { return std::string(one.param.name); });

struct NoToml {
  const char* text;
  const char* line;
  const char* right;
};

// The parser says what it met, in its own words; what a person reads is the line and what to write.
TEST(PipelineFile, WhatIsNoTomlIsShownWithWhatWouldBeRight) {
  const NoToml cases[] = {
      {"name = vision\n", "'name = vision'", "put the text in quotes: name = \"vision\""},
      {"name = \n", "'name ='", "write a value behind it: name = \"...\""},
      {"[stages.a\n", "'[stages.a'", "end the table's name with ]: [stages.a]"},
      {"[stages.a]\ncommand = ['x', 'y'\n[stages.b]\n", "", ""},
      {"[stages.a]\nshell = \"x\nreplicas = 2\n", "'shell = \"x'",
       "end the text with another \" on its line"},
      {"[stages.a]\ncommand = [python3, x.py]\n", "'command = [python3, x.py]'",
       "put each text of the list in quotes"},
      {"name: vision\n", "'name: vision'", "write = in place of the colon: name = vision"},
      {"vision\n", "'vision'", "write KEY = VALUE, or [TABLE]"},
      {"[settings]\nexact = True\n", "'exact = True'", "write true or false"},
  };
  for (const NoToml& one : cases) {
    const std::string error = error_of(one.text);
    EXPECT_THAT(error, testing::AllOf(HasSubstr("not a pipeline file: "), HasSubstr(one.line),
                                      HasSubstr(one.right), EndsWith("TOML 1.0")));
    EXPECT_THAT(error, testing::Not(HasSubstr("\n")));
  }
}

// None of them is said to be there because of another one.
TEST(PipelineFile, TellsEveryMistakeOfAFileAndNoOther) {
  Mistakes mistakes;
  const auto parsed = parse_pipeline(
      "[settings]\nrate = [1]\n"
      "[hosts.b]\nadress = 'x'\n"
      "[stages.a]\ncommand = 'x {rate}'\nreplicas = 0\nhost = 'b'\n"
      "[stages.c]\ncomand = ['x']\nreplicas = 'two'\nhost = 'nowhere'\n"
      "[channels.x]\nform = 'a'\nto = 'nobody'\n"
      "[channels.d]\nfrom = 'a'\nto = 'cc'\nslots = 65\n"
      "[channels.e]\nfrom = 'a'\nto = 'c'\n",
      kSource, {}, mistakes);
  ASSERT_TRUE(parsed);
  std::vector<std::string> all;
  for (const Error& one : mistakes.all()) all.push_back(one.message);
  EXPECT_THAT(all, ElementsAre(StartsWith("p.toml:2:8: settings.rate: is a list"),
                               StartsWith("p.toml:4:1: hosts.b.adress: unknown key"),
                               StartsWith("p.toml:7:12: stages.a.replicas: 0 is not within"),
                               StartsWith("p.toml:6:11: stages.a.command: is a string"),
                               StartsWith("p.toml:10:1: stages.c.comand: unknown key"),
                               StartsWith("p.toml:11:12: stages.c.replicas: is a string"),
                               StartsWith("p.toml:12:8: stages.c.host: "),
                               StartsWith("p.toml:14:1: channels.x.form: unknown key"),
                               StartsWith("p.toml:15:6: channels.x.to: there is no stage"),
                               StartsWith("p.toml:18:6: channels.d.to: there is no stage 'cc'"),
                               StartsWith("p.toml:19:9: channels.d.slots: 65 is not within")));
}

TEST(PipelineFile, RefusesAChannelNameTooLongForItsLinks) {
  const std::string name(62, 'c');  // allowed by itself, but not with ".0.0" behind it
  const std::string error = error_of(TWO_STAGES "[channels." + name + "]\nfrom = 'a'\nto = 'b'\n");
  EXPECT_THAT(error, StartsWith("p.toml:3:11: channels." + name + ": is no name for a channel"));
}

TEST(PipelineFile, AcceptsADiamond) {
  EXPECT_TRUE(
      parse("stages.a.command = ['a']\nstages.b.command = ['b']\n"
            "stages.c.command = ['c']\nstages.d.command = ['d']\n"
            "channels.ab = { from = 'a', to = 'b' }\n"
            "channels.ac = { from = 'a', to = 'c' }\n"
            "channels.bd = { from = 'b', to = 'd' }\n"
            "channels.cd = { from = 'c', to = 'd' }\n"));
}

TEST(PipelineFile, RefusesAnOverrideWithoutASetting) {
  const std::string error = error_of(kGood, {{"inptu", "x"}});
  EXPECT_THAT(error, StartsWith("--set inptu: p.toml has no such setting"));
  EXPECT_THAT(error, EndsWith("did you mean 'input'?"));
  EXPECT_THAT(error_of("stages.a.command = ['a']", {{"x", "1"}}), EndsWith("there are none"));
}

TEST(PipelineFile, SaysOfWrongRanksWhichOverrideGaveThem) {
  const std::string_view text =
      "[settings]\nn = 2\nm = 3\n[stages.a]\ncommand = ['x']\nranks = '{n}'\n";
  EXPECT_EQ(error_of(text, {{"m", "4"}, {"n", "two"}}),
            "--set n=two: p.toml:6:9: stages.a.ranks: 'two' is no number from 1 to 256; "
            "it comes from \"{n}\"");
}

TEST(PipelineFile, ParsesOverrides) {
  const Result<Setting> setting = parse_override("key=a=b");
  ASSERT_TRUE(setting);
  EXPECT_EQ(setting->key, "key");
  EXPECT_EQ(setting->value, "a=b");
  EXPECT_FALSE(parse_override("key"));
  EXPECT_FALSE(parse_override("=value"));
}

TEST(PipelineFile, RefusesAFolderAndWhatIsNotThere) {
  Mistakes none;
  EXPECT_THAT(gantry::to_string(read_pipeline("/nowhere/p.toml", {}, none).error()),
              StartsWith("/nowhere/p.toml: "));
  EXPECT_THAT(gantry::to_string(read_pipeline("/", {}, none).error()), HasSubstr("directory"));
}

}  // namespace
}  // namespace gantry::run
