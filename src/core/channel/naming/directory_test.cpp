#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "core/base/event.hpp"
#include "core/base/os/socket.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/test_support.hpp"

namespace gantry {
namespace {

using testing::HasSubstr;

TEST(ChannelName, AllowsPlainNamesOnly) {
  for (const char* good : {"a", "frames.0.1", "A-b_c", "0"})
    EXPECT_TRUE(check_channel_name(good)) << good;
  for (const char* bad : {"", ".hidden", "a/b", "a b", "..", "\xc3\xa9", "a\n"})
    EXPECT_EQ(check_channel_name(bad).error().code, Code::invalid_argument) << bad;
  EXPECT_THAT(check_channel_name("in@10.0.0.2").error().message,
              testing::HasSubstr("is opened on its own host"));
  EXPECT_TRUE(check_channel_name(std::string(64, 'x')));
  EXPECT_FALSE(check_channel_name(std::string(65, 'x')));
  EXPECT_THAT(check_channel_name("a/b").error().message, HasSubstr("'/'"));
}

TEST(ChannelName, IsListedToWhoWaitsIfAPersonChoseIt) {
  const test::ScratchDirectory scratch;
  std::vector<Claim> claims;
  for (const char* name : {"jobs", "queue-12-ab", "pipe-0f", "frames"})
    claims.push_back(*Claim::take(scratch.path(), name));
  EXPECT_EQ(awaited_text(scratch.path(), "misspelt", "producer"),
            "channel 'misspelt' in " + scratch.path() +
                ": waiting for its producer; there are frames, jobs");
  EXPECT_THAT(awaited_text(scratch.path(), "misspelt", "queue"),
              testing::StartsWith("queue 'misspelt' in " + scratch.path() +
                                  ": waiting for its owner; there are"));
  claims.resize(3);
  EXPECT_THAT(awaited_text(scratch.path(), "x", "inbox"), testing::EndsWith("; there is jobs"));
  claims.clear();
  EXPECT_THAT(awaited_text(scratch.path(), "x", "inbox"),
              testing::EndsWith("; there is no other channel"));
}

TEST(ChannelDirectory, IsMadeForItsUserAlone) {
  const test::ScratchDirectory scratch;
  const std::string wanted = scratch.path() + "/channels";
  const auto directory = channel_directory(wanted);
  ASSERT_TRUE(directory);
  struct stat facts{};
  ASSERT_EQ(::stat(wanted.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777u, 0700u);
  EXPECT_TRUE(channel_directory(wanted)) << "a second time";
}

TEST(ChannelDirectory, RefusesOneThatOthersCanUse) {
  const test::ScratchDirectory scratch;
  for (const mode_t mode : {0770u, 0707u, 01777u, 0750u, 0711u}) {
    ASSERT_EQ(::chmod(scratch.path().c_str(), mode), 0);
    const auto directory = channel_directory(scratch.path());
    ASSERT_FALSE(directory) << mode;
    EXPECT_EQ(directory.error().code, Code::permission_denied);
    EXPECT_THAT(directory.error().hint, HasSubstr("another directory"));
  }
  ASSERT_EQ(::chmod(scratch.path().c_str(), 0700), 0);
  EXPECT_TRUE(channel_directory(scratch.path()));
}

TEST(ChannelDirectory, RefusesWhatIsNoDirectory) {
  EXPECT_EQ(channel_directory("/dev/null").error().code, Code::invalid_argument);
  EXPECT_EQ(channel_directory("/no/such/folder").error().code, Code::not_found);
}

TEST(ChannelDirectory, ALinkIsNotCalledAFile) {
  const test::ScratchDirectory scratch;
  const std::string link = scratch.path() + "/link";
  std::filesystem::create_directory(scratch.path() + "/real");
  std::filesystem::create_symlink("real", link);
  for (const Error& error :
       {channel_directory(link).error(), channel_directory(link, {.users = {12345}}).error()}) {
    EXPECT_EQ(error.code, Code::invalid_argument);
    EXPECT_THAT(error.message, HasSubstr(link + ": a symbolic link"));
    EXPECT_THAT(error.hint, HasSubstr("realpath " + link));
  }
}

/// A variable of the environment, for a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = ::getenv(name); before != nullptr) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(ChannelDirectory, OfTheEnvironmentIsTheSameInEveryProcess) {
  {
    const Variable relative("GANTRY_DIR", "no-such-channels");
    const auto error_of = [](const auto& result) { return result ? Error{} : result.error(); };
    for (const Error& error :
         {error_of(channel_directory()), error_of(channel_directory("", {.users = {12345}})),
          error_of(list_channels(""))}) {
      EXPECT_EQ(error.code, Code::invalid_argument);
      EXPECT_THAT(error.message, HasSubstr("GANTRY_DIR 'no-such-channels': a relative path"));
      EXPECT_THAT(error.hint, HasSubstr("begins with '/'"));
    }
    EXPECT_FALSE(std::filesystem::exists("no-such-channels"));
  }
  const Variable none("GANTRY_DIR", "");
  const Variable runtime("XDG_RUNTIME_DIR", "run");
  const Variable temporary("TMPDIR", "tmp");
  EXPECT_TRUE(channel_directory_path().starts_with("/tmp/gantry-")) << channel_directory_path();
}

// A folder of the kernel's that is ours alone and takes no files, as a full disk would take none.
TEST(Claim, SaysWhereNoSocketCanBeMadeAndWhatToDo) {
  const auto claim = Claim::take("/proc/self/fd", "x");
  ASSERT_FALSE(claim);
  EXPECT_TRUE(claim.error().message.starts_with("/proc/self/fd/.x.sock.")) << claim.error().message;
  EXPECT_EQ(claim.error().hint, "set GANTRY_DIR to a directory you can write to");
}

TEST(Claim, SweepsTheDeadAndSparesTheLiving) {
  const test::ScratchDirectory scratch;
  const auto live = Claim::take(scratch.path(), "live");
  ASSERT_TRUE(live);
  {
    // A listener that vanished without tidying up, as a killed process does.
    auto dead = listen_at(scratch.path(), "dead.sock");
    ASSERT_TRUE(dead);
  }
  sweep_if_stale(scratch.path(), "live");
  sweep_if_stale(scratch.path(), "dead");
  EXPECT_TRUE(std::filesystem::exists(scratch.path() + "/live.sock"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() + "/dead.sock"));
}

// Nobody takes their names again, so the next queue sweeps them; it asks no living process.
TEST(Claim, OfAQueueSweepsTheQueuesOfDeadProcesses) {
  const test::ScratchDirectory scratch;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const std::string dead = "queue-" + std::to_string(child) + "-";
  const auto file = [&](const std::string& name) { return scratch.path() + "/" + name + ".sock"; };
  const std::string own = "queue-" + std::to_string(::getpid()) + "-1";
  for (const std::string& name : {dead + "1", own, std::string("queue-x"), std::string("camera")})
    ASSERT_TRUE(listen_at(scratch.path(), name + ".sock"));  // and nobody listens any more
  std::ofstream(file(dead + "file")) << "somebody's";
  std::filesystem::create_directory(scratch.path() + "/." + dead + "2.sock.new");
  std::filesystem::permissions(scratch.path() + "/." + dead + "2.sock.new",
                               std::filesystem::perms::owner_all);
  const auto elsewhere = listen_at(scratch.path(), dead + "3.sock");  // of another PID namespace
  ASSERT_TRUE(elsewhere);
  const auto other = Claim::take(scratch.path(), "other");
  EXPECT_TRUE(std::filesystem::exists(file(dead + "1")));
  const auto queue = Claim::take(scratch.path(), own + "2");
  ASSERT_TRUE(queue);
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    left.insert(entry.path().string());
  EXPECT_EQ(left, (std::set{file("other"), file(own), file(own + "2"), file("queue-x"),
                            file("camera"), file(dead + "file"), file(dead + "3")}));
}

TEST(Claim, AListenerTooBusyToAnswerIsAlive) {
  const test::ScratchDirectory scratch;
  auto busy = Claim::take(scratch.path(), "busy");
  ASSERT_TRUE(busy);
  std::vector<Fd> callers;  // nobody accepts them
  for (auto caller = connect_to(scratch.path(), "busy.sock"); caller;
       caller = connect_to(scratch.path(), "busy.sock"))
    callers.push_back(std::move(*caller));
  EXPECT_EQ(Claim::take(scratch.path(), "busy").error().code, Code::already_exists);
}

// What has the name may be an inbox as well: the error names the process, and no role.
TEST(Claim, OfANameThatThisProcessHasSaysSo) {
  const test::ScratchDirectory scratch;
  const auto inbox = Inbox::open("box", {.channel = {{.directory = scratch.path()}}});
  ASSERT_TRUE(inbox) << inbox.error().message;
  const auto claim = Claim::take(scratch.path(), "box");
  ASSERT_FALSE(claim);
  EXPECT_EQ(claim.error().code, Code::already_exists);
  EXPECT_EQ(claim.error().message, "channel 'box': this process has that name already");
  EXPECT_THAT(claim.error().hint, HasSubstr("an inbox, a server or a queue is opened once"));
}

TEST(Claim, WaitsForALockedDirectoryOnlyUntilInterrupted) {
  const test::ScratchDirectory scratch;
  const Fd held(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  const Fd interrupt = *make_event();
  ring(interrupt.get());
  EXPECT_EQ(Claim::take(scratch.path(), "x", interrupt.get()).error().code, Code::interrupted);
  ASSERT_EQ(::flock(held.get(), LOCK_UN), 0);
  EXPECT_TRUE(Claim::take(scratch.path(), "x", interrupt.get()));
}

TEST(Claim, TakesOverFromTheDeadAndIsNotRemovedByAnother) {
  const test::ScratchDirectory scratch;
  {
    auto dead = listen_at(scratch.path(), "x.sock");
  }
  auto first = Claim::take(scratch.path(), "x");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(Claim::take(scratch.path(), "x").error().code, Code::already_exists);
  // Somebody removed the file behind our back and another took the name: giving up ours now must
  // not remove theirs.
  std::filesystem::remove(scratch.path() + "/x.sock");
  auto second = Claim::take(scratch.path(), "x");
  ASSERT_TRUE(second);
  first->give_up();
  EXPECT_TRUE(std::filesystem::exists(scratch.path() + "/x.sock"));
  second->give_up();
  EXPECT_TRUE(scratch.is_empty());
}

}  // namespace
}  // namespace gantry
