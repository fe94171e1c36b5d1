// `gantry ls` and `gantry top` as a person or a script meets them: who is stuck, what moves.
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <cctype>
#include <functional>
#include <gantry/runtime.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli_support.hpp"

namespace gantry::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Watch : public Cli {
 protected:
  [[nodiscard]] json ls() const { return json::parse(run(gantry({"ls", "--json"})).output); }
  [[nodiscard]] json first() const { return ls()["channels"][0]; }
  [[nodiscard]] bool eventually_first(const std::function<bool(const json&)>& holds) const {
    return eventually([&] {
      const json channels = ls()["channels"];
      return !channels.empty() && holds(channels[0]);
    });
  }
  /// A put and a get; the get cannot write on, so that it stops taking messages.
  struct Pair {
    Subprocess putting;
    Subprocess getting;
  };
  [[nodiscard]] Pair connected() const {
    Command putting = put({"c", "--lines", "--slots", "2"}, "first\n");
    putting.keep_input = true;
    Pair pair{Subprocess(putting), Subprocess(gantry({"get", "c"}))};
    EXPECT_TRUE(pair.getting.wait_output("first\n"));
    return pair;
  }
};

// ---- ls ----------------------------------------------------------------------------------------

TEST_F(Watch, LsTellsEverythingOfAConsumer) {
  const Pair pair = connected();
  const json channel = first();
  EXPECT_EQ(channel["producer_state"], "running");
  EXPECT_EQ(channel["answered"], true);
  EXPECT_EQ(channel["mode"], "automatic");
  EXPECT_EQ(channel["notes"], json::array());
  ASSERT_EQ(channel["consumers"].size(), 1u);
  const json& consumer = channel["consumers"][0];
  EXPECT_EQ(consumer["pid"], pair.getting.pid());
  EXPECT_EQ(consumer["state"], "running");
  EXPECT_EQ(consumer["policy"], "block");
  EXPECT_EQ(consumer["stuck"], false);
  EXPECT_EQ(consumer["metrics"]["messages"], 1);
  EXPECT_EQ(channel["metrics"]["copies"].size(), 4u);
  const auto text = run(gantry({"ls", "--long"})).output;
  EXPECT_THAT(text, HasSubstr("POLICY"));
  EXPECT_THAT(text, HasSubstr("copies: 1 by inline (6 B)"));
  EXPECT_THAT(text, HasSubstr(std::to_string(pair.getting.pid())));
  EXPECT_THAT(text, Not(HasSubstr("note:")));
  EXPECT_THAT(run(gantry({"ls"})).output, Not(HasSubstr("POLICY")));
}

TEST_F(Watch, ANameShowsThatChannelAlone) {
  const Pair pair = connected();
  const std::string name = first()["name"];
  EXPECT_THAT(run(gantry({"ls", name})).output, HasSubstr(name));
  EXPECT_THAT(run(gantry({"top", "--interval", "0.01", "--once", name})).output, HasSubstr(name));
  EXPECT_THAT(run(gantry({"top", "--interval", "0.01", "--once", name + "2"})).output,
              Not(HasSubstr(name)));
  const auto none = run(gantry({"ls", name + "2"}));
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.errors, IsOneLine());
  EXPECT_THAT(none.errors, HasSubstr("no channel '" + name + "2'"));
}

// As a stage of `gantry run` has them in its environment.
TEST_F(Watch, AStageIsShownByItsNameAndReplica) {
  Command stage = gantry({"get", "c"});
  for (const auto& [name, value] :
       {std::pair("GANTRY_STAGE", "score"), std::pair("GANTRY_REPLICA", "1"),
        std::pair("GANTRY_REPLICAS", "2")})
    stage.env.emplace_back(name, value);
  Command source = put({"c", "--lines"}, "line\n");
  source.keep_input = true;
  const Subprocess putting(source);
  const Subprocess getting(stage);
  ASSERT_TRUE(
      eventually_first([](const json& channel) { return channel["consumers"].size() == 1; }));
  const json channel = first();
  EXPECT_EQ(channel["producer_who"]["command"], "gantry put");
  EXPECT_EQ(channel["producer_who"]["stage"], json());
  const json who = channel["consumers"][0]["who"];
  EXPECT_EQ(who["stage"], "score");
  EXPECT_EQ(who["replica"], 1);
  EXPECT_EQ(who["host"], own_end_name().host);
  for (const char* command : {"ls", "top"}) {
    std::vector<std::string> words{command};
    if (words[0] == "top") words.insert(words.end(), {"--once", "--interval", "0.01"});
    EXPECT_THAT(run(gantry(words)).output,
                AllOf(HasSubstr("gantry put (" + std::to_string(putting.pid()) + ")"),
                      HasSubstr("score.1 (" + std::to_string(getting.pid()) + ")")));
  }
}

// Its receiver is this process; the producers are, too.
TEST_F(Watch, AnInboxIsShownAsOne) {
  auto runtime = Runtime::create();
  ASSERT_TRUE(runtime);
  InboxOptions options;
  options.channel.directory = scratch_.path();
  auto inbox = runtime->inbox("in", options);
  ASSERT_TRUE(inbox) << inbox.error().message;
  const auto out =
      runtime->connect("in", {options.channel, {}}, Deadline::after(std::chrono::minutes(1)));
  ASSERT_TRUE(out) << out.error().message;
  const json channel = first();
  EXPECT_EQ(channel["inbox"], true);
  EXPECT_EQ(channel["producer_pid"], 0);
  EXPECT_EQ(channel["consumer_pid"], ::getpid());
  EXPECT_EQ(channel["senders_limit"], 64);
  ASSERT_EQ(channel["senders"].size(), 1u);
  EXPECT_EQ(channel["senders"][0]["pid"], ::getpid());
  EXPECT_EQ(channel["senders"][0]["state"], "running");
  EXPECT_EQ(channel["senders"][0]["credits"], 8);
  EXPECT_EQ(channel["senders"][0]["waits"], false);
  EXPECT_THAT(run(gantry({"ls"})).output, HasSubstr("1 of 64"));
  EXPECT_THAT(run(gantry({"ls"})).output, Not(HasSubstr("SENDER")));
  EXPECT_THAT(run(gantry({"ls", "--long"})).output,
              AllOf(HasSubstr("SENDER"), HasSubstr("CREDITS")));
  EXPECT_THAT(run(gantry({"top", "--once"})).output, HasSubstr("1 of 64"));
}

TEST_F(Watch, LsNamesAStoppedConsumerAndForHowLong) {
  Pair pair = connected();
  pair.getting.signal(SIGSTOP);
  ASSERT_TRUE(eventually_first(
      [](const json& channel) { return channel["consumers"][0]["state"] == "stopped"; }));
  const auto note = "note: c: consumer gantry get (" + std::to_string(pair.getting.pid()) +
                    ") is stopped (SIGSTOP; kill -CONT " + std::to_string(pair.getting.pid()) +
                    " lets it go on): it took its last message ";
  EXPECT_THAT(run(gantry({"ls"})).output, HasSubstr(note));
  EXPECT_EQ(first()["consumers"][0]["stuck"], true);
  const auto idle = first()["consumers"][0]["idle_ns"].get<std::int64_t>();
  EXPECT_GT(first()["consumers"][0]["idle_ns"].get<std::int64_t>(), idle);
  pair.getting.signal(SIGCONT);
  EXPECT_TRUE(eventually_first([](const json& channel) { return channel["notes"].empty(); }));
}

TEST_F(Watch, LsNamesAStuckConsumer) {
  const Subprocess putting(
      put({"c", "--message-size", "64K", "--slots", "2"}, std::string(std::size_t{8} << 20, 'x')));
  Command blocked = gantry({"get", "c"});
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);  // nobody reads it
  blocked.output_path = "/proc/self/fd/" + std::to_string(pipe[1]);
  const Subprocess getting(blocked);
  ASSERT_TRUE(eventually_first([](const json& channel) { return !channel["notes"].empty(); }));
  const json channel = first();
  EXPECT_THAT(
      channel["notes"][0].get<std::string>(),
      HasSubstr("consumer gantry get (" + std::to_string(getting.pid()) + ") is stuck: it took"));
  EXPECT_THAT(channel["notes"][0].get<std::string>(), HasSubstr("all 2 credits are used"));
  EXPECT_EQ(channel["consumers"][0]["holds_up"], true);
  EXPECT_EQ(channel["consumers"][0]["state"], "running");
  EXPECT_GT(channel["consumers"][0]["idle_ns"].get<std::int64_t>(), 1'000'000'000);
  EXPECT_EQ(channel["consumers"][0]["held"].size(), 2u);
  for (const int end : pipe) ::close(end);
}

TEST_F(Watch, LsReturnsThoughAProducerIsStopped) {
  const Pair pair = connected();
  const Subprocess other(put({"other"}, "x"));
  ASSERT_TRUE(listed("other"));
  pair.putting.signal(SIGSTOP);
  ASSERT_TRUE(eventually_first([](const json& channel) { return channel["answered"] == false; }));
  const auto ended = run(gantry({"ls"}));
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, HasSubstr("stopped, no answer"));
  EXPECT_THAT(ended.output, HasSubstr("note: c: producer " + std::to_string(pair.putting.pid())));
  EXPECT_EQ(ls()["channels"][1]["answered"], true);
  pair.putting.signal(SIGCONT);
  EXPECT_TRUE(eventually_first([](const json& channel) { return channel["answered"] == true; }));
}

// ---- top ---------------------------------------------------------------------------------------

TEST_F(Watch, TopHasRatesFromDifferences) {
  Pair pair = connected();
  Command command = gantry({"top", "--json", "--count", "200", "--interval", "0.02"});
  Subprocess top(command);
  ASSERT_TRUE(top.wait_output("\n"));
  for (int i = 0; i < 200; ++i) pair.putting.write_input("another line\n");
  const auto ended = top.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 0) << ended->errors;
  std::istringstream lines(ended->output);
  int documents = 0;
  bool moved = false;
  for (std::string line; std::getline(lines, line); ++documents) {
    const json document = json::parse(line);
    EXPECT_EQ(document["interval_ns"], 20'000'000);
    const json& channel = document["channels"].at(0);
    EXPECT_EQ(channel["name"], "c");
    moved = moved || channel["messages_per_second"].get<double>() > 0;
  }
  EXPECT_EQ(documents, 200);
  EXPECT_TRUE(moved);
}

TEST_F(Watch, TopWithoutATerminalPrintsPlainLines) {
  const Pair pair = connected();
  const auto once = run(gantry({"top", "--once", "--interval", "0.01"}));
  EXPECT_EQ(once.status, 0) << once.errors;
  EXPECT_THAT(once.output, HasSubstr("MESSAGES/S"));
  EXPECT_THAT(once.output, HasSubstr(std::to_string(pair.getting.pid())));
  EXPECT_THAT(once.output, Not(HasSubstr("\x1b")));
  const auto document = json::parse(run(gantry({"top", "--json", "--interval", "0.01"})).output);
  EXPECT_EQ(document["channels"][0]["messages_per_second"], 0.0);
}

TEST_F(Watch, TopShowsNoHandOffOfAChannelThatNobodyReads) {
  Subprocess putting(put({"c"}, "x"));
  ASSERT_TRUE(listed("c"));
  const auto once = run(gantry({"top", "--once", "--interval", "0.01"}));
  EXPECT_THAT(once.output, HasSubstr("P99"));
  EXPECT_THAT(once.output, Not(HasSubstr("0 ns")));
}

TEST_F(Watch, AnInterruptedTopExits130) {
  const Pair pair = connected();
  for (const int number : {SIGINT, SIGTERM}) {
    Subprocess top(gantry({"top", "--interval", "0.01"}));
    ASSERT_TRUE(top.wait_output("CHANNEL"));
    top.signal(number);
    const auto ended = top.wait();
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->status, 130);
    EXPECT_THAT(ended->errors, IsEmpty());
  }
}

TEST_F(Watch, TopToldWronglyIsWrongUsage) {
  const std::vector<std::vector<std::string>> wrong{{"top", "--interval", "0"},
                                                    {"top", "--interval", "soon"},
                                                    {"top", "--count", "0"},
                                                    {"top", "--once", "--count", "2"},
                                                    {"top", "c", "d"}};
  for (const auto& arguments : wrong) {
    const auto ended = run(gantry(arguments));
    EXPECT_EQ(ended.status, 2) << ended.errors;
    EXPECT_THAT(ended.errors, IsOneLine());
  }
}

// ---- top on a terminal -------------------------------------------------------------------------

/// `gantry top` on a terminal of its own.
class TerminalTop : public Watch {
 protected:
  void SetUp() override {
    const Command command = gantry({"top", "--interval", "30"});
    const winsize window{.ws_row = 10, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    int slave = -1;
    ASSERT_EQ(::openpty(&master_, &slave, nullptr, nullptr, &window), 0);
    ASSERT_EQ(::tcgetattr(slave, &before_), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(master_);
      ::login_tty(slave);
      for (const auto& [name, value] : command.env) ::setenv(name.c_str(), value.c_str(), 1);
      ::setenv("TERM", "xterm", 1);
      const std::vector<const char*> argv{command.argv[0].c_str(), "top", "--interval", "30",
                                          nullptr};
      ::execv(argv[0], const_cast<char**>(argv.data()));  // NOLINT: execv() writes nothing
      ::_exit(127);
    }
    slave_ = slave;  // stays open, so that what was set can be asked after the end
  }
  void TearDown() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(master_);
    ::close(slave_);
  }
  void read_until(std::string_view text) {
    while (seen_.find(text) == std::string::npos) {
      std::array<char, 4096> bytes{};
      pollfd entry{master_, POLLIN, 0};
      ASSERT_EQ(::poll(&entry, 1, 60'000), 1) << "nothing more comes: " << seen_;
      const ssize_t got = ::read(master_, bytes.data(), bytes.size());
      ASSERT_GT(got, 0) << seen_;
      seen_.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }
  void press(char key) const { ASSERT_EQ(::write(master_, &key, 1), 1); }
  int exit_status() {
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(pid_, -1), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void expect_restored() {
    read_until("\x1b[?1049l");
    EXPECT_THAT(seen_, HasSubstr("\x1b[?25h"));
    termios after{};
    ASSERT_EQ(::tcgetattr(slave_, &after), 0);
    EXPECT_EQ(after.c_lflag, before_.c_lflag);
    EXPECT_EQ(after.c_cc[VSUSP], before_.c_cc[VSUSP]);
  }

  int master_ = -1;
  int slave_ = -1;
  pid_t pid_ = -1;
  termios before_{};
  std::string seen_;
};

/// Of a reader that is stopped, in 80 columns.
class TerminalTopOfAStopped : public TerminalTop {
 protected:
  void SetUp() override {
    pair_.emplace(connected());
    pair_->getting.signal(SIGSTOP);
    ASSERT_TRUE(eventually_first(
        [](const json& channel) { return channel["consumers"][0]["state"] == "stopped"; }));
    TerminalTop::SetUp();
  }
  std::optional<Pair> pair_;
};

TEST_F(TerminalTopOfAStopped, ShowsTheWholeReason) {
  read_until("CHANNEL");
  std::string text;  // as one line, without what moves the cursor
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    if (seen_[i] == '\x1b')
      while (i + 1 < seen_.size() && std::isalpha(static_cast<unsigned char>(seen_[i])) == 0) ++i;
    else if (std::isspace(static_cast<unsigned char>(seen_[i])) == 0)
      text += seen_[i];
    else if (!text.ends_with(' '))
      text += ' ';
  }
  EXPECT_THAT(text,
              HasSubstr("is stopped (SIGSTOP; kill -CONT " + std::to_string(pair_->getting.pid()) +
                        " lets it go on): it took its last message "));
}

TEST_F(TerminalTop, QLeaves) {
  read_until("q leaves");
  EXPECT_THAT(seen_, HasSubstr("\x1b[?1049h"));
  press('x');
  press('q');
  EXPECT_EQ(exit_status(), 0);
  expect_restored();
}

TEST_F(TerminalTop, CtrlCLeavesWith130) {
  read_until("q leaves");
  press('\x03');
  EXPECT_EQ(exit_status(), 130);
  expect_restored();
}

TEST_F(TerminalTop, ASignalThatEndsItRestoresTheTerminal) {
  read_until("q leaves");
  ::kill(pid_, SIGABRT);
  EXPECT_EQ(exit_status(), -SIGABRT);
  expect_restored();
}

}  // namespace
}  // namespace gantry::test
