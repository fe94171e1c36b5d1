// What becomes of rings while they are recorded: long runs, ends that wait, files that are cut off.
#include <sys/wait.h>

#include <gantry/runtime.hpp>

#include "run_support.hpp"
#include "trace_support.hpp"

namespace gantry::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::uint64_t kMany = 50'000;

std::uint64_t lost_of(const trace::Trace& trace) {
  std::uint64_t lost = 0;
  for (const trace::Track& track : trace.tracks) lost += track.lost;
  return lost;
}

/// Sends kMany messages of 64 bytes to a process that acknowledges each thousand; `then` is called
/// after each.
template <class Then>
void send_many(const std::string& directory, Then then) {
  constexpr std::uint64_t kAtOnce = 1000;
  const pid_t child = ::fork();
  if (child == 0) {
    auto runtime = Runtime::create({.directory = directory});
    auto in = runtime->consumer("there", {}, Deadline::after(Subprocess::kLong));
    auto out = runtime->producer("back");
    bool fine = in && out && out->wait_for_consumer(Deadline::after(Subprocess::kLong), 1);
    for (std::uint64_t i = 1; fine && i <= kMany; ++i) {
      fine = in->receive(Deadline::after(Subprocess::kLong)).has_value();
      if (fine && i % kAtOnce == 0) fine = out->send(std::array<std::byte, 1>{}).has_value();
    }
    ::_exit(fine ? 0 : 1);
  }
  auto runtime = Runtime::create({.directory = directory});
  auto out = runtime->producer("there");
  auto in = runtime->consumer("back", {}, Deadline::after(Subprocess::kLong));
  ASSERT_TRUE(in && out && out->wait_for_consumer(Deadline::after(Subprocess::kLong), 1));
  const std::array<std::byte, 64> bytes{};
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    ASSERT_TRUE(out->send(bytes));
    if (i % kAtOnce != 0) continue;
    ASSERT_TRUE(in->receive(Deadline::after(Subprocess::kLong)));
    then();
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The recorder looks before a ring is full: all are there.
TEST(TraceRings, ManyMoreMessagesThanARingHoldsAreThere) {
  const ScratchDirectory scratch;
  auto recording = trace::Recording::start({scratch.path()});
  ASSERT_TRUE(recording) << recording.error().message;
  send_many(scratch.path(), [&] { EXPECT_TRUE(recording->keep_up()); });
  const auto trace = recording->finish();
  ASSERT_TRUE(trace);
  EXPECT_EQ(lost_of(*trace), 0u);
  for (const auto kind : {trace::EventKind::send, trace::EventKind::receive}) {
    std::set<std::uint64_t> numbers;
    for (const trace::Track& track : trace->tracks)
      for (const trace::Event& event : track.events)
        if (track.channel == "there" && event.kind == kind) {
          EXPECT_TRUE(numbers.insert(event.message.sequence).second) << event.message.sequence;
        }
    EXPECT_EQ(numbers.size(), kMany);
  }
}

class TraceRingsOf : public TraceCommand {
 protected:
  /// The ring files there are.
  [[nodiscard]] std::vector<fs::path> rings() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(scratch_.file("trace")))
      if (entry.path().filename().string().find('-') != std::string::npos)
        found.push_back(entry.path());
    return found;
  }
};

// As fast as they can, beside a recorder: each is there once, or counted.
TEST_F(TraceRingsOf, MessagesAtFullSpeedAreThereOrCounted) {
  Subprocess recorder = record();
  Subprocess putting(put({"c", "--message-size", "64"}, random_bytes(64 * kMany)));
  EXPECT_EQ(run(gantry({"get", "c"})).output.size(), 64 * kMany);
  EXPECT_EQ(putting.wait()->status, 0);
  EXPECT_EQ(finish(recorder).status, 0);
  const LoadedTrace trace(file());
  std::size_t there = 0;
  for (const char* name : {"send", "receive"}) {
    std::set<json> messages;
    for (const json& event : trace.named(name))
      EXPECT_TRUE(messages.insert(event["args"]["message"]).second) << event;
    EXPECT_FALSE(messages.empty());
    there += messages.size();
  }
  EXPECT_GE(there + trace.all()["otherData"]["lost_events"].get<std::size_t>(), 2 * kMany);
}

TEST_F(TraceRingsOf, WhoeverCutsThemOffDisturbsNobody) {
  Subprocess recorder = record();
  Command command = put({"c", "--lines"}, "first\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess getting(gantry({"get", "c"}));
  ASSERT_TRUE(getting.wait_output("first\n"));
  ASSERT_TRUE(eventually([&] { return rings().size() == 2; }));
  for (const fs::path& ring : rings()) {
    fs::permissions(ring, fs::perms::owner_write, fs::perm_options::add);
    fs::resize_file(ring, 0);
  }
  for (int i = 0; i < 100; ++i) putting.write_input("more\n");
  putting.write_input("last\n");
  putting.close_input();
  const auto got = getting.wait();
  EXPECT_EQ(got->status, 0) << got->signal;
  EXPECT_THAT(got->output, ::testing::EndsWith("more\nlast\n"));
  const auto put = putting.wait();
  EXPECT_EQ(put->status, 0) << put->signal;
  const Ended ended = finish(recorder);
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.errors, HasSubstr("it is cut off"));
  EXPECT_THAT(ended.errors, ::testing::Not(HasSubstr("there was no room")));
  expect_nothing_left();
}

/// Whether the process sleeps in the kernel.
bool sleeps(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/wchan");
  std::string where;
  std::getline(file, where);
  return where.find("poll") != std::string::npos;
}

// Both ends stand: what for is in the trace, for the one that was killed there, too.
TEST_F(TraceRingsOf, AWaitThatHasNotEndedIsThere) {
  for (const bool is_killed : {false, true}) {
    Subprocess recorder = record();
    Command command = put({"c", "--lines"}, "first\n");
    command.keep_input = true;
    Subprocess putting(command);
    Subprocess getting(gantry({"get", "c"}));
    ASSERT_TRUE(getting.wait_output("first\n"));
    ASSERT_TRUE(eventually([&] { return sleeps(getting.pid()); }));
    if (is_killed) {
      getting.signal(SIGKILL);
      EXPECT_EQ(getting.wait()->signal, SIGKILL);
    }
    EXPECT_EQ(finish(recorder).status, 0);
    const auto waits = LoadedTrace(file()).named("wait for message, not ended");
    ASSERT_EQ(waits.size(), 1u);
    EXPECT_EQ(waits[0]["pid"], getting.pid());
    EXPECT_GT(waits[0]["dur"], 0);
    putting.close_input();
    EXPECT_TRUE(putting.wait());
    if (!is_killed) {
      EXPECT_EQ(getting.wait()->status, 0);
    }
  }
}

// It comes and goes while a recorder is there that was told of no run.
TEST(TraceRuns, OneThatStartsMeanwhileIsRecorded) {
  RunScratch scratch;
  const ScratchDirectory results;
  fs::create_directories(scratch.channels());
  fs::permissions(scratch.channels(), fs::perms::owner_all);
  Command record;
  record.argv = {GANTRY_CLI,         "trace",     "-o",   results.file("t.json"), "--directory",
                 scratch.channels(), "--seconds", "10min"};
  Subprocess recorder(record);
  ASSERT_TRUE(eventually([&] { return fs::exists(scratch.channels() + "/trace/control"); }));
  Subprocess running(scratch.command(RunScratch::three_stages(RunScratch::kForEver, 100)));
  // The processes whose rings the recorder reads: the four stages.
  const auto read = [&] {
    std::set<std::string> pids;
    for (const auto& entry :
         fs::directory_iterator("/proc/" + std::to_string(recorder.pid()) + "/fd")) {
      std::error_code gone;
      const fs::path target = fs::read_symlink(entry.path(), gone);
      const std::string name = target.filename();
      if (target.parent_path().filename() == "trace") pids.insert(name.substr(0, name.find('-')));
    }
    return pids.size();
  };
  EXPECT_TRUE(eventually([&] { return read() == 4; }));
  running.signal(SIGINT);
  EXPECT_TRUE(running.wait());
  recorder.signal(SIGINT);
  EXPECT_EQ(recorder.wait()->status, 0);
  const LoadedTrace trace(results.file("t.json"));
  EXPECT_EQ(trace.pids().size(), 4u);
  EXPECT_FALSE(trace.named("receive").empty());
  EXPECT_THAT(scratch.left_behind(), ::testing::IsEmpty());
}

TEST(TraceRuns, TheRoomOfEachEndCanBeSaid) {
  RunScratch scratch;
  const ScratchDirectory results;
  const std::string file = results.file("run.json");
  const Ended ended =
      scratch.run(RunScratch::three_stages(2000, 100), {"--trace", file, "--trace-events", "1"});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("give each end room for more (gantry run --trace-events)"));
}

}  // namespace
}  // namespace gantry::test
