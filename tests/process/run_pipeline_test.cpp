// `gantry run` when all goes well: every byte arrives over every transport and is accounted for.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run_support.hpp"

namespace gantry::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t kCount = 40;
constexpr std::uint64_t kBytes = 200'003;  // no multiple of a page
const std::string kAllArrived = "40 820";  // how many, and the sum of 1 to 40

class OverEveryTransport : public testing::TestWithParam<const char*> {
 protected:
  RunScratch scratch_;
};
INSTANTIATE_TEST_SUITE_P(Run, OverEveryTransport, testing::Values("gantry", "pipe"),
                         [](const auto& one) { return std::string(one.param); });

const json& named(const json& list, const std::string& name) {
  return *std::find_if(list.begin(), list.end(),
                       [&](const json& one) { return one["name"] == name; });
}

TEST_P(OverEveryTransport, EveryByteArrivesAndIsAccountedFor) {
  const Ended run =
      scratch_.run(RunScratch::three_stages(kCount, kBytes), {"--json", "--transport", GetParam()});
  ASSERT_EQ(run.status, 0) << run.errors;
  EXPECT_EQ(scratch_.read_results(), kAllArrived);
  const json report = json::parse(run.output);
  EXPECT_EQ(report["transport"], GetParam());
  EXPECT_EQ(report["accounted"], true);
  EXPECT_EQ(report["bytes"], 2 * kCount * kBytes);
  EXPECT_EQ(report["stages"].size(), 3u);
  for (const char* name : {"numbers", "results"}) {
    const json& channel = named(report["channels"], name);
    EXPECT_EQ(channel["links"], 2u);
    EXPECT_EQ(channel["messages"], kCount);
    EXPECT_EQ(channel["published_bytes"], kCount * kBytes);
    EXPECT_EQ(channel["bytes"], kCount * kBytes);
    EXPECT_GT(channel["movement_ns_per_message"], 0);
    EXPECT_GE(channel["handoff_p99_ns"], channel["handoff_p50_ns"]);
  }
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The data in a run's page; null: there is none.
json report_in(const std::string& path) {
  const std::string page = contents(path);
  const std::string begin = "<script type=\"application/json\" id=\"report\">";
  const auto at = page.find(begin);
  if (at == std::string::npos) return {};
  const auto from = at + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

// The figures are those of --json; what the page does with them: serve_page_test.py.
TEST_P(OverEveryTransport, AReportCanBeAPageOfItsOwn) {
  const ScratchDirectory files;
  const std::string path = files.file("report.html");
  const Ended run = scratch_.run(RunScratch::three_stages(kCount, kBytes),
                                 {"--json", "--transport", GetParam(), "--report", path});
  ASSERT_EQ(run.status, 0) << run.errors;
  const json report = report_in(path);
  ASSERT_FALSE(report.is_null());
  EXPECT_EQ(report["run"], json::parse(run.output));
  EXPECT_EQ(report["status"]["channels"].size(), report["run"]["channels"].size());
  for (const json& channel : report["run"]["channels"]) {
    const json& history = report["history"][channel["name"].get<std::string>()];
    ASSERT_FALSE(history.empty());
    EXPECT_EQ(history.back()[0], 0.0);  // up to the end
  }
  EXPECT_EQ(report["status"]["error"], "");
  const std::string page = contents(path);
  EXPECT_THAT(page, Not(HasSubstr("src=")));  // it needs no server
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy"));
}

// What was moved until then is there, too.
TEST(RunPage, ARunThatFailsSaysInItsReportWhatFailed) {
  RunScratch scratch;
  const ScratchDirectory files;
  const std::string path = files.file("report.html");
  const std::string text = "[stages.make]\nshell = 'seq 1 1000 | " GANTRY_CLI
                           " put numbers --lines'\n"
                           "[stages.count]\nshell = '" GANTRY_CLI
                           " get numbers >/dev/null; echo \"<b>no disk</b>\" >&2; exit 3'\n"
                           "[channels.numbers]\nfrom = 'make'\nto = 'count'\n";
  const Ended run = scratch.run(text, {"--report", path, "--quiet"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(last_line(run.errors), StartsWith("gantry: stage count: exited with status 3"));
  EXPECT_EQ(run.output, "");
  const json report = report_in(path);
  ASSERT_FALSE(report.is_null());
  EXPECT_EQ(report["status"]["error"], "stage count: exited with status 3");
  EXPECT_EQ(report["last_words"], json::array({"<b>no disk</b>"}));
  EXPECT_EQ(report["run"]["channels"][0]["messages"], 1000);
  EXPECT_EQ(report["run"]["stages"].size(), 2u);
  EXPECT_FALSE(report["history"]["numbers"].empty());
  EXPECT_THAT(scratch.left_behind(), IsEmpty());
}

TEST(RunPage, AnInterruptedRunHasAReport) {
  RunScratch scratch;
  const ScratchDirectory files;
  const std::string path = files.file("report.html");
  Subprocess running(scratch.command(RunScratch::three_stages(RunScratch::kForEver, kBytes),
                                     {"--report", path, "--quiet"}));
  ASSERT_TRUE(eventually([&] { return scratch.pid_of("source") != 0; }));
  running.signal(SIGINT);
  const auto ended = running.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 130);
  EXPECT_EQ(report_in(path)["status"]["error"], "run: was interrupted");
}

/// User and system time of the processes of a stage, in clock ticks.
long cpu_ticks_of(const RunScratch& scratch, const std::string& stage) {
  long sum = 0;
  for (const StagePid& one : scratch.stages()) {
    if (one.stage != stage) continue;
    const std::string stat = contents("/proc/" + std::to_string(one.pid) + "/stat");
    std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
    std::string field;  // the 14th and 15th are the times; the state, after the name, is the 3rd
    for (int number = 3; number <= 15 && fields >> field; ++number)
      if (number >= 14) sum += std::stol(field);
  }
  return sum;
}

// The shell ends at the order to stop, before it has waited for its children.
TEST(RunPage, AnInterruptedShellStageIsChargedWithItsChildren) {
  constexpr long kTicks = 20;
  RunScratch scratch;
  const ScratchDirectory files;
  const std::string path = files.file("report.html");
  Subprocess running(
      scratch.command("[stages.burner]\n"
                      "shell = 'while :; do :; done | while :; do :; done & wait'\n",
                      {"--report", path, "--quiet"}));
  long seen = 0;
  ASSERT_TRUE(eventually([&] {
    seen = cpu_ticks_of(scratch, "burner");
    return seen >= kTicks;
  }));
  running.signal(SIGINT);
  ASSERT_TRUE(running.wait());
  const json run = report_in(path)["run"];
  const double counted = run["cpu_s"];
  constexpr double kRounded = 3;  // a tick for each process
  EXPECT_GE(counted * static_cast<double>(::sysconf(_SC_CLK_TCK)),
            static_cast<double>(seen) - kRounded);
  EXPECT_EQ(run["stages"][0]["user_s"].get<double>() + run["stages"][0]["system_s"].get<double>(),
            counted);
}

TEST(RunPage, AFileThatCannotBeWrittenIsToldBeforeAnythingStarts) {
  RunScratch scratch;
  const std::string text = RunScratch::three_stages(kCount, kBytes);
  const Ended run = scratch.run(text, {"--report", "/nowhere/report.html"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.errors, StartsWith("gantry: /nowhere/report.html: No such file or directory; "));
  EXPECT_EQ(run.output, "");
  EXPECT_EQ(scratch.run(text, {"--report", "r.html", "--compare", "pipe"}).status, 2);
  const Ended full = scratch.run(text, {"--report", "/dev/full"});
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.errors, HasSubstr("gantry: /dev/full: No space left on device; "));
  EXPECT_THAT(full.output, HasSubstr("every published byte was received"));
}

TEST_P(OverEveryTransport, PutAndGetCarryAnyProgram) {
  const std::string text =
      "[stages.first]\ncommand = ['sh', '-c', 'seq 1 100000 | gantry put lines']\n"
      "[stages.last]\ncommand = ['sh', '-c', 'gantry get lines > {out}']\n"
      "[channels.lines]\nfrom = 'first'\nto = 'last'\n";
  const Ended run = scratch_.run(text, {"--transport", GetParam()});
  ASSERT_EQ(run.status, 0) << run.errors;
  std::string expected;
  for (int i = 1; i <= 100000; ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(scratch_.read_results(), expected);
  EXPECT_THAT(run.output, HasSubstr("every published byte was received"));
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

class Run : public testing::Test {
 protected:
  RunScratch scratch_;
};

TEST_F(Run, ReportsToAPersonToo) {
  const Ended run = scratch_.run(RunScratch::three_stages(kCount, kBytes));
  ASSERT_EQ(run.status, 0) << run.errors;
  for (const char* part : {"pipeline pipeline over gantry", "every published byte was received",
                           "numbers", "results", "relay", "slowest stage: "})
    EXPECT_THAT(run.output, HasSubstr(part));
}

// A name of a file may have any bytes; JSON may not.
TEST_F(Run, AFileWhoseNameIsNoUtf8IsReported) {
  Command command = scratch_.command(RunScratch::three_stages(kCount, kBytes), {"--json"});
  std::string& file = command.argv[2];
  std::filesystem::copy(file, file + "\xff.toml");
  file += "\xff.toml";
  const Ended run = test::run(command);
  ASSERT_EQ(run.status, 0) << run.errors;
  EXPECT_THAT(json::parse(run.output).dump(), HasSubstr("pipeline.toml\uFFFD"));
}

TEST_F(Run, ComparesTwoTransports) {
  const Ended run =
      scratch_.run(RunScratch::three_stages(kCount, kBytes), {"--json", "--compare", "pipe"});
  ASSERT_EQ(run.status, 0) << run.errors;
  const json report = json::parse(run.output);
  EXPECT_EQ(report["run"]["transport"], "gantry");
  EXPECT_EQ(report["compared"]["transport"], "pipe");
  EXPECT_EQ(report["run"]["bytes"], report["compared"]["bytes"]);
  const double first = report["run"]["wall_s"];
  EXPECT_DOUBLE_EQ(report["ratios"]["wall_s"], report["compared"]["wall_s"].get<double>() / first);
  EXPECT_EQ(report["ratios"]["channels"].size(), 2u);
  EXPECT_GT(named(report["ratios"]["channels"], "numbers")["movement_ns_per_message"], 0);

  const Ended again = scratch_.run(RunScratch::three_stages(kCount, kBytes), {"--compare", "pipe"});
  EXPECT_EQ(again.status, 0) << again.errors;
  EXPECT_THAT(again.output, HasSubstr("gantry compared with pipe"));
}

TEST_F(Run, CountsTheCopiesByEngine) {
  const Ended run = scratch_.run(RunScratch::three_stages(kCount, kBytes), {"--json"});
  ASSERT_EQ(run.status, 0) << run.errors;
  const json report = json::parse(run.output);
  // The source writes into loans; the relay sends what it has, which takes one copy each.
  std::uint64_t loaned = 0;
  std::uint64_t sent = 0;
  std::uint64_t sent_bytes = 0;
  for (const auto& [engine, one] : named(report["channels"], "numbers")["copies"].items())
    loaned += one["copies"].get<std::uint64_t>();
  for (const auto& [engine, one] : named(report["channels"], "results")["copies"].items()) {
    sent += one["copies"].get<std::uint64_t>();
    sent_bytes += one["bytes"].get<std::uint64_t>();
  }
  EXPECT_EQ(loaned, 0u);
  EXPECT_EQ(sent, kCount);
  EXPECT_EQ(sent_bytes, kCount * kBytes);
}

TEST_F(Run, GivesStagesTheirEnvironmentAndNothingElse) {
  const std::string text =
      "[stages.a]\n"
      "command = ['sh', '-c', 'echo $OWN $GANTRY_STAGE $GANTRY_REPLICA; read x || echo no input; "
      "ls -l /proc/self/fd | grep -c -v /proc']\n"
      "environment = { OWN = 'set' }\n";
  const Ended run = scratch_.run(text);
  ASSERT_EQ(run.status, 0) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("[a] set a 0\n"));
  EXPECT_THAT(run.errors, HasSubstr("[a] no input\n"));
  // "total 0" and the three standard streams: everything else is closed on exec.
  EXPECT_THAT(run.errors, HasSubstr("[a] 4\n"));
}

TEST_F(Run, SettingsOfTheCommandLineReplaceThoseOfTheFile) {
  const std::string text = "[stages.a]\ncommand = ['echo', 'it is {out}']\n";
  const Ended run = scratch_.run(text, {"--set", "out=something else", "--quiet"});
  ASSERT_EQ(run.status, 0) << run.errors;
  EXPECT_EQ(run.errors, "[a] it is something else\n");
  EXPECT_EQ(run.output, "") << "--quiet";
}

TEST_F(Run, ItsChannelsAreListedByPipelineStageAndReplica) {
  Subprocess run(scratch_.command(RunScratch::three_stages(RunScratch::kForEver, kBytes)));
  ASSERT_TRUE(run.wait_errors("[sink] flowing"));
  Command ls = scratch_.command("");
  ls.argv = {GANTRY_CLI, "ls", "--json"};
  const json channels = json::parse(test::run(ls).output)["channels"];
  const auto link = std::ranges::find_if(channels, [](const json& channel) {
    return channel["shown_name"] == "pipeline/numbers.0.1";
  });
  ASSERT_NE(link, channels.end()) << channels;
  EXPECT_EQ((*link)["pipeline"], "pipeline");
  EXPECT_EQ((*link)["producer_who"]["text"], "source");
  EXPECT_EQ((*link)["consumers"][0]["who"]["text"], "relay.1");
  ls.argv = {GANTRY_CLI, "ls", "pipeline/numbers.0.1"};
  EXPECT_THAT(test::run(ls).output,
              testing::AllOf(HasSubstr("pipeline/numbers.0.1"), HasSubstr("relay.1 (")));
  run.signal(SIGINT);
  EXPECT_TRUE(run.wait());
}

// What no channel counts is no waiting of 0 %.
TEST_F(Run, AReportOfManyColumnsFitsAPageAndSaysWhatIsNotCounted) {
  const Ended run = scratch_.run(RunScratch::three_stages(kCount, kBytes) +
                                 "[stages.alone]\ncommand = ['true']\n");
  ASSERT_EQ(run.status, 0) << run.errors;
  std::istringstream lines(run.output);
  std::string alone;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("pipeline ")) {
      EXPECT_LE(line.size(), 100u) << line;
    }
    if (line.starts_with("alone")) alone = line;
  }
  EXPECT_THAT(alone, ::testing::ContainsRegex(" s +- +"));
  EXPECT_THAT(run.output, HasSubstr("to receive"));
}

/// A terminal: what is written to path() can be read here.
class Terminal {
 public:
  Terminal() : descriptor_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    if (::grantpt(descriptor_) != 0 || ::unlockpt(descriptor_) != 0) ::abort();
    ::fcntl(descriptor_, F_SETFL, O_RDWR | O_NONBLOCK);
  }
  ~Terminal() { ::close(descriptor_); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] std::string path() const { return ::ptsname(descriptor_); }
  [[nodiscard]] const std::string& text() {
    char some[4096];
    for (ssize_t got = 0; (got = ::read(descriptor_, some, sizeof some)) > 0;)
      text_.append(some, static_cast<std::size_t>(got));
    return text_;
  }

 private:
  int descriptor_;
  std::string text_;
};

// Neither stage has a channel, so both count the same, and the first would be named.
TEST_F(Run, AStageThatHasEndedIsNotTheSlowest) {
  Terminal terminal;
  Command command = scratch_.command(
      "[stages.ended]\ncommand = ['true']\n"
      "[stages.waiting]\ncommand = ['sh', '-c', 'until [ -e {out} ]; do sleep 0.01; done']\n");
  command.argv.insert(command.argv.begin(),
                      {"sh", "-c", "exec \"$0\" \"$@\" 2> " + terminal.path()});
  Subprocess run(command);
  EXPECT_TRUE(eventually([&] {
    return terminal.text().find("slowest stage: waiting") != std::string::npos;
  })) << terminal.text();
  std::ofstream(scratch_.results()) << "go on";
  EXPECT_EQ(run.wait().value_or(Ended{}).status, 0);
}

TEST_F(Run, TwoAtOnceDoNotMeet) {
  RunScratch other;
  const Command first = scratch_.command(RunScratch::three_stages(kCount, kBytes));
  Command second = other.command(RunScratch::three_stages(kCount, kBytes));
  second.env = first.env;  // the same channel directory
  Subprocess one(first);
  Subprocess two(second);
  const auto one_ended = one.wait();
  const auto two_ended = two.wait();
  ASSERT_TRUE(one_ended && two_ended);
  EXPECT_EQ(one_ended->status, 0) << one_ended->errors;
  EXPECT_EQ(two_ended->status, 0) << two_ended->errors;
  EXPECT_EQ(scratch_.read_results(), kAllArrived);
  EXPECT_EQ(other.read_results(), kAllArrived);
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

}  // namespace
}  // namespace gantry::test
