// The files that commands write, where something else is: nothing is overwritten, nobody waits.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli_support.hpp"
#include "run_support.hpp"

namespace gantry::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class RunOutputs : public Cli {
 protected:
  /// A run with these words behind it, which is refused; the pipeline file is as it was.
  void expect_refused(std::vector<std::string> words, const std::string& why) {
    Command command = run_.command(RunScratch::three_stages(5, 100), std::move(words));
    const std::string before = text_of(command.argv[2]);
    const Ended ended = run(command);
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.errors, AllOf(IsOneLine(), HasSubstr(why)));
    EXPECT_EQ(text_of(command.argv[2]), before);
    EXPECT_FALSE(fs::exists(run_.results()));
  }
  [[nodiscard]] std::string pipeline() { return run_.command("").argv[2]; }

  RunScratch run_;
  ScratchDirectory files_;
};

TEST_F(RunOutputs, NoneIsThePipelineFileOrAnother) {
  const std::string same = files_.file("same");
  for (const char* option : {"--trace", "--report"})
    expect_refused({option, pipeline()}, "it is the same file as the pipeline file");
  expect_refused({"--trace", same, "--report", same}, "it is the same file as that of --report");
  EXPECT_FALSE(fs::exists(same));
}

TEST_F(RunOutputs, AFifoIsRefused) {
  const std::string fifo = files_.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const char* option : {"--trace", "--report"})
    expect_refused({option, fifo}, "/fifo: it is no regular file");
  const Ended traced = run(gantry({"trace", "-o", fifo, "--seconds", "1ms"}));
  EXPECT_EQ(traced.status, 1);
  EXPECT_THAT(traced.errors, HasSubstr("/fifo: it is no regular file"));
}

// ---- $GANTRY_TRACE -----------------------------------------------------------------------------

TEST_F(RunOutputs, ARunThatIsAStageHasNotItsRunsTrace) {
  Command command = run_.command("[stages.only]\ncommand = ['sh', '-c', 'env >{out}']\n");
  const std::string trace = files_.file("trace.json");
  command.env.emplace_back("GANTRY_TRACE", trace);
  EXPECT_EQ(run(command).status, 0);
  EXPECT_TRUE(fs::exists(trace));
  EXPECT_THAT(run_.read_results(),
              AllOf(HasSubstr("GANTRY_DIR="), ::testing::Not(HasSubstr(trace))));
}

TEST_F(RunOutputs, TheVariableSuitsARunThatIsNotTraced) {
  const std::string trace = files_.file("trace.json");
  const std::string note = "gantry: GANTRY_TRACE: the run over pipe is not traced\n";
  Command piped = run_.command(RunScratch::three_stages(5, 100), {"--transport", "pipe"});
  piped.env.emplace_back("GANTRY_TRACE", trace);
  const Ended ended = run(piped);
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr(note));
  EXPECT_FALSE(fs::exists(trace));
}

// ---- names that nobody has ---------------------------------------------------------------------

TEST_F(RunOutputs, ANameThatNobodyHasIsAnError) {
  Command command = put({"numbers", "--lines"}, "x\n");
  command.keep_input = true;
  const Subprocess putting(command);
  ASSERT_TRUE(listed("numbers"));
  const std::string trace = files_.file("trace.json");
  const Ended listing = run(gantry({"ls", "numbrs"}));
  EXPECT_EQ(listing.status, 1);
  const Ended watched = run(gantry({"top", "numbrs", "--once"}));
  EXPECT_EQ(watched.status, 1);
  EXPECT_EQ(watched.errors, listing.errors);
  const Ended traced = run(gantry({"trace", "numbrs", "-o", trace, "--seconds", "1ms"}));
  EXPECT_EQ(traced.status, 1);
  EXPECT_THAT(traced.errors, HasSubstr("nobody had a channel 'numbrs'"));
  EXPECT_FALSE(fs::exists(trace));
  EXPECT_EQ(run(gantry({"trace", "numbers", "-o", trace, "--seconds", "1ms"})).status, 0);
}

// As the pipeline file names it, as gantry ls shows it, and without the run.
TEST_F(RunOutputs, AChannelOfARunIsNamedAsInItsFile) {
  const Subprocess running(
      run_.command(RunScratch::three_stages(RunScratch::kForEver, 100), {"--quiet"}));
  const auto look = [&](std::vector<std::string> words) {
    Command command = gantry(words);
    command.env.emplace_back("GANTRY_DIR", run_.channels());
    return run(command);
  };
  ASSERT_TRUE(eventually([&] { return look({"ls", "numbers.0.1"}).status == 0; }));
  const std::string listed = look({"ls", "numbers.0.1"}).output;
  const auto end = std::min(listed.find("/numbers.0.1"), listed.size());
  const auto begin = listed.rfind('\n', end) + 1;
  const std::string run_name = listed.substr(begin, end - begin);  // that of its file
  EXPECT_THAT(look({"ls", run_name + "/numbers"}).output,
              AllOf(HasSubstr("numbers.0.0"), HasSubstr("numbers.0.1")));
  const std::string file = files_.file("trace.json");
  for (const char* name : {"numbers", "numbers.0.0"}) {
    EXPECT_THAT(look({"ls", name}).output, HasSubstr("/numbers.0.0"));
    EXPECT_THAT(look({"top", name, "--once"}).output, HasSubstr("/numbers.0.0"));
    for (const std::string& before : {std::string(), run_name + "/"}) {
      EXPECT_THAT(look({"top", before + name, "--once"}).output, HasSubstr("/numbers.0.0"));
      EXPECT_EQ(look({"trace", before + name, "-o", file, "--seconds", "1ms"}).status, 0);
    }
  }
  EXPECT_EQ(look({"ls", "number"}).status, 1);
}

TEST_F(RunOutputs, ADirectoryThatIsNotThereIsNotServed) {
  const std::string missing = files_.file("missing");
  const Ended ended = run(gantry({"serve", "--directory", missing, "--listen", "127.0.0.1:0"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, AllOf(IsOneLine(), HasSubstr(missing + ": there is no such")));
}

TEST_F(RunOutputs, AnothersDirectoryIsNotRecorded) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may look into another user's directory";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::chown(files_.path().c_str(), kNobody, kNobody), 0);
  const Ended ended = run(gantry({"trace", "--directory", files_.path(), "-o",
                                  scratch_.file("trace.json"), "--seconds", "1ms"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, AllOf(IsOneLine(), HasSubstr("it is another user's")));
}

TEST_F(RunOutputs, WhoeverLooksIsToldNoOptionThatThereIsNot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  ASSERT_EQ(::chmod(files_.path().c_str(), 0711), 0);
  for (const char* name : {"ls", "top", "serve", "trace"}) {
    Command command = gantry({name, "--directory", files_.path()});
    command.argv.insert(command.argv.begin(), {"setpriv", "--reuid=65534", "--clear-groups"});
    EXPECT_EQ(run(command).errors, "gantry: " + files_.path() +
                                       ": belongs to user 0, not to you; look as that user, or "
                                       "name a directory of your own\n");
  }
}

TEST_F(RunOutputs, AHiddenCommandIsNotNamed) {
  EXPECT_THAT(run(gantry({"frobnicate"})).errors,
              AllOf(HasSubstr("bench"), ::testing::Not(HasSubstr("pages"))));
}

}  // namespace
}  // namespace gantry::test
