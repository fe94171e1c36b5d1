// `gantry trace` and `gantry run --trace`: every message's way is in the file, from end to end.
#include <filesystem>
#include <fstream>

#include "run_support.hpp"
#include "trace_support.hpp"

namespace gantry::test {
namespace {

using ::testing::HasSubstr;

// Sizes of each way that a message can take: in its record, beside it, in a slot, in chunks.
TEST_F(TraceCommand, EachMessageIsSentAndArrivesOnce) {
  for (const auto& [size, count] : std::vector<std::pair<std::size_t, std::size_t>>{
           {40, 300}, {2000, 100}, {100'000, 20}, {3'000'000, 3}}) {
    Subprocess recorder = record();
    const std::string sent = random_bytes(size * count);
    Subprocess putting(put({"c", "--message-size", std::to_string(size)}, sent));
    EXPECT_EQ(run(gantry({"get", "c"})).output, sent);
    EXPECT_EQ(putting.wait()->status, 0);
    const Ended ended = finish(recorder);
    EXPECT_EQ(ended.status, 0) << ended.errors;
    EXPECT_THAT(ended.errors, IsOneLine());
    EXPECT_THAT(ended.errors, HasSubstr(std::to_string(count) + " messages sent"));
    const LoadedTrace trace(file());
    const auto arrivals = trace.arrivals();
    EXPECT_EQ(arrivals.size(), count) << size;
    for (const auto& [message, times] : arrivals) EXPECT_EQ(times, 1) << message;
    EXPECT_EQ(trace.arrows("message"), count);
    EXPECT_EQ(trace.all()["otherData"]["lost_events"], 0);
    EXPECT_EQ(trace.named("thread_name").size(), 2u);
    expect_nothing_left();
  }
}

TEST_F(TraceCommand, ProcessesThatRunNoticeIt) {
  Command command = put({"c", "--lines"}, "");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess getting(gantry({"get", "c"}));
  putting.write_input("before\n");
  ASSERT_TRUE(getting.wait_output("before\n"));
  Subprocess recorder = record();
  // Its reader sleeps: the very next message wakes it, and asks whether somebody records.
  const auto is_traced = [&] {
    const auto owned = [&](const auto& entry) {
      return entry.path().filename().string().starts_with(std::to_string(getting.pid()) + "-");
    };
    putting.write_input("line\n");
    std::filesystem::directory_iterator files(scratch_.file("trace"));
    return std::ranges::any_of(files, owned);
  };
  EXPECT_TRUE(eventually(is_traced));
  putting.write_input("last\n");
  ASSERT_TRUE(getting.wait_output("last\n"));
  EXPECT_EQ(finish(recorder).status, 0);
  EXPECT_EQ(LoadedTrace(file()).pids(), (std::set<int>{putting.pid(), getting.pid()}));
  putting.close_input();
  EXPECT_EQ(getting.wait()->status, 0);
}

TEST_F(TraceCommand, AKilledProducersLastMessagesAreThereAndItsDeath) {
  Subprocess recorder = record();
  Command command = put({"c", "--lines"}, "first\nlast\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess getting(gantry({"get", "c"}));
  ASSERT_TRUE(getting.wait_output("last\n"));
  putting.signal(SIGKILL);
  EXPECT_EQ(putting.wait()->signal, SIGKILL);
  EXPECT_EQ(getting.wait()->status, 1);
  EXPECT_EQ(finish(recorder).status, 0);
  const LoadedTrace trace(file());
  EXPECT_EQ(trace.arrivals().size(), 2u);
  EXPECT_EQ(trace.arrows("message"), 2u);
  const auto deaths = trace.named("death");
  ASSERT_EQ(deaths.size(), 1u);
  EXPECT_EQ(deaths[0]["pid"], putting.pid());
  EXPECT_EQ(trace.named("end").size(), 1u);  // the consumer's, in the regular way
  expect_nothing_left();
}

TEST_F(TraceCommand, ANameShowsThatChannelAlone) {
  Subprocess recorder = record({"b"});
  for (const char* name : {"a", "b"}) {
    Subprocess putting(put({name}, "bytes"));
    EXPECT_EQ(run(gantry({"get", name})).output, "bytes");
    EXPECT_EQ(putting.wait()->status, 0);
  }
  EXPECT_EQ(finish(recorder).status, 0);
  for (const json& track : LoadedTrace(file()).named("thread_name"))
    EXPECT_THAT(track["args"]["name"].get<std::string>(), ::testing::StartsWith("b ("));
}

TEST_F(TraceCommand, WhatWasOverwrittenIsCountedAndShown) {
  Subprocess recorder = record({"--events", "16"});
  Subprocess putting(put({"c", "--message-size", "10"}, random_bytes(1000)));
  EXPECT_EQ(run(gantry({"get", "c"})).output.size(), 1000u);
  EXPECT_EQ(putting.wait()->status, 0);
  const Ended ended = finish(recorder);
  EXPECT_THAT(ended.errors, HasSubstr("events lost: give each end room for more"));
  const LoadedTrace trace(file());
  EXPECT_FALSE(trace.named("send").empty() && trace.named("receive").empty());
  const std::size_t there = trace.named("send").size() + trace.named("receive").size();
  EXPECT_GE(trace.all()["otherData"]["lost_events"].get<std::size_t>() + there, 200u);
}

// ---- what may go wrong -------------------------------------------------------------------------

TEST_F(TraceCommand, GarbageInARingIsOneNote) {
  Subprocess recorder = record();
  const std::string ring = scratch_.file("trace") + "/1-1-1";
  std::ofstream(ring) << random_bytes(5000);
  std::filesystem::permissions(ring, std::filesystem::perms::owner_read);
  const Ended ended = finish(recorder);
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.errors, HasSubstr("1-1-1: it is no ring of events"));
  EXPECT_EQ(LoadedTrace(file()).all()["otherData"]["notes"].size(), 1u);
  expect_nothing_left();
}

TEST_F(TraceCommand, ASecondOneAtATimeIsRefused) {
  Subprocess recorder = record();
  const Ended second = run(gantry({"trace", "-o", results_.file("second.json")}));
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.errors, IsOneLine());
  EXPECT_THAT(second.errors, HasSubstr("another trace is being recorded there by process " +
                                       std::to_string(recorder.pid())));
  EXPECT_FALSE(std::filesystem::exists(results_.file("second.json")));
  EXPECT_EQ(finish(recorder).status, 0);
}

TEST_F(TraceCommand, WhoeverRemovesTheFolderEndsItInOneLine) {
  Subprocess recorder = record();
  std::filesystem::remove_all(scratch_.file("trace"));
  const Ended ended = behind_progress(recorder.wait().value_or(Ended{}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("/trace: somebody removed it while a trace was recorded"));
  EXPECT_TRUE(std::filesystem::is_empty(results_.path()));
}

TEST_F(TraceCommand, OneThatIsKilledLeavesNoFile) {
  Subprocess recorder = record();
  recorder.signal(SIGKILL);
  EXPECT_EQ(recorder.wait()->signal, SIGKILL);
  EXPECT_TRUE(std::filesystem::is_empty(results_.path()));
}

TEST_F(TraceCommand, AnEarlierFileStaysUntilThereIsAnother) {
  const std::string earlier = results_.file("earlier.json");
  std::ofstream(earlier) << "earlier";
  std::filesystem::create_symlink(earlier, file());
  Subprocess recorder = record();
  EXPECT_EQ(std::filesystem::file_size(earlier), 7u);
  EXPECT_EQ(finish(recorder).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(file()));
  EXPECT_TRUE(LoadedTrace(earlier).all().contains("traceEvents"));
}

TEST_F(TraceCommand, ADiskThatIsFullIsOneLine) {
  const Ended ended =
      behind_progress(run(gantry({"trace", "-o", "/dev/full", "--seconds", "1ms"})));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, IsOneLine());
  EXPECT_THAT(ended.errors, HasSubstr("/dev/full: No space left on device"));
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
  expect_nothing_left();
}

TEST_F(TraceCommand, WhatCannotBeIsSaidInOneLine) {
  const auto expect_refused = [&](const std::vector<std::string>& words, int status,
                                  const std::string& why) {
    const Ended ended = run(gantry(words));
    EXPECT_EQ(ended.status, status) << why;
    EXPECT_THAT(ended.errors, IsOneLine());
    EXPECT_THAT(ended.errors, HasSubstr(why));
    expect_nothing_left();
  };
  const std::string nowhere = results_.file("no") + "/trace.json";
  expect_refused({"trace", "-o", nowhere}, 1, nowhere + ": No such file or directory");
  expect_refused({"trace", "--directory", results_.file("no")}, 1, "there is no such runtime");
  expect_refused({"trace", "run-7-nobody"}, 1, "there is no such runtime directory");
  expect_refused({"trace", "--seconds", "soon"}, 2, "soon");
  expect_refused({"trace", "--events", "0"}, 2, "--events");
}

// ---- gantry run --------------------------------------------------------------------------------

// A source, two relays and a sink: each message of the source goes on, and is followed.
TEST(TraceRun, AMessageIsFollowedFromStageToStage) {
  constexpr std::size_t kCount = 200;
  RunScratch scratch;
  const ScratchDirectory results;
  const std::string file = results.file("run.json");
  const Ended ended =
      scratch.run(RunScratch::three_stages(kCount, RunScratch::kBytes), {"--trace", file});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const LoadedTrace trace(file);
  const auto arrivals = trace.arrivals();
  EXPECT_EQ(arrivals.size(), 2 * kCount);
  for (const auto& [message, times] : arrivals) EXPECT_EQ(times, 1) << message;
  EXPECT_EQ(trace.arrows("message"), 2 * kCount);
  EXPECT_EQ(trace.arrows("because of"), kCount);
  EXPECT_EQ(trace.pids().size(), 4u);
  std::multiset<std::string> names;
  for (const json& process : trace.named("process_name"))
    names.insert(process["args"]["name"].get<std::string>());
  EXPECT_EQ(names.size(), 4u);
  for (const char* stage : {"source", "relay.0", "relay.1", "sink"})
    EXPECT_THAT(names, ::testing::Contains(::testing::StartsWith(stage)));
  EXPECT_TRUE(trace.named("death").empty());
  EXPECT_THAT(scratch.left_behind(), ::testing::IsEmpty());
}

TEST(TraceRun, TheEnvironmentNamesTheFileToo) {
  RunScratch scratch;
  const ScratchDirectory results;
  Command command = scratch.command(RunScratch::three_stages(5, 100));
  command.env.emplace_back("GANTRY_TRACE", results.file("run.json"));
  EXPECT_EQ(run(command).status, 0);
  EXPECT_EQ(LoadedTrace(results.file("run.json")).arrivals().size(), 10u);
}

TEST(TraceRun, OnlyARunOfOurChannelsHasATrace) {
  RunScratch scratch;
  const Ended ended =
      scratch.run(RunScratch::three_stages(5, 100), {"--trace", "t.json", "--transport", "pipe"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, HasSubstr("use --transport gantry without --compare"));
}

}  // namespace
}  // namespace gantry::test
