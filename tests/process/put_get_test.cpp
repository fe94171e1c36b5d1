// Options of `gantry put` and `gantry get`, and what they say while they wait.
#include <unistd.h>

#include <gantry/runtime.hpp>

#include "cli_support.hpp"

namespace gantry::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// ---- channels ----------------------------------------------------------------------------------

TEST_F(Cli, EveryConsumerGetsEverything) {
  const std::string bytes = random_bytes(2'000'000);
  Subprocess putting(put({"c", "--consumers", "2", "--wait-consumer"}, bytes));
  Subprocess first(gantry({"get", "c"}));
  Subprocess second(gantry({"get", "c"}));
  EXPECT_TRUE(first.wait().value_or(Ended{}).output == bytes);
  EXPECT_TRUE(second.wait().value_or(Ended{}).output == bytes);
  EXPECT_EQ(putting.wait().value_or(Ended{}).status, 0);
  expect_nothing_left();
}

TEST_F(Cli, EveryModeCarriesTheSameBytes) {
  const std::string bytes = random_bytes(3'000'001);
  for (const char* mode : {"automatic", "whole", "pipelined", "streamed", "immutable"}) {
    Subprocess putting(put({"c", "--mode", mode}, bytes));
    EXPECT_TRUE(run(gantry({"get", "c"})).output == bytes) << mode;
    EXPECT_EQ(putting.wait().value_or(Ended{}).status, 0) << mode;
  }
  expect_nothing_left();
}

TEST_F(Cli, GetWritesAllSegments) {
  ProducerOptions options;
  options.directory = scratch_.path();
  auto runtime = Runtime::create();
  ASSERT_TRUE(runtime) << runtime.error().message;
  auto out = runtime->producer("c", options);
  ASSERT_TRUE(out) << out.error().message;
  Subprocess getting(gantry({"get", "c"}));
  const std::string small = "a little", large = random_bytes(700'001);
  const auto bytes_of = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  for (const SendMode mode : {SendMode::whole, SendMode::pipelined, SendMode::streamed}) {
    Draft draft;
    draft.copy(bytes_of(small)).copy({}).copy(bytes_of(large)).copy(bytes_of(small));
    ASSERT_TRUE(out->send(std::move(draft), {.mode = mode}));
  }
  ASSERT_TRUE(out->send(Draft().copy(bytes_of(small)).copy(bytes_of(small))));  // in its record
  ASSERT_TRUE(out->close());
  const std::string each = small + large + small;
  const auto ended = getting.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 0) << ended->errors;
  EXPECT_TRUE(ended->output == each + each + each + small + small);
}

TEST_F(Cli, APolicyIsTheConsumersOwn) {
  Command command = put({"c", "--lines"}, "x\n");
  command.keep_input = true;
  Subprocess putting(command);
  Subprocess getting(gantry({"get", "c", "--when-slow", "drop-oldest"}));
  ASSERT_TRUE(getting.wait_output("x\n"));
  EXPECT_THAT(run(gantry({"ls", "--json"})).output, HasSubstr("\"drop_oldest\""));
}

TEST_F(Cli, UsersAreNamedOrNumbered) {
  const std::string own = std::to_string(::geteuid());
  Subprocess putting(put({"c", "--users", "root," + own}, "x"));
  EXPECT_EQ(run(gantry({"get", "c", "--users", "0"})).output, "x");
  EXPECT_EQ(putting.wait().value_or(Ended{}).status, 0);
}

TEST_F(Cli, WrongValuesAreToldTheRightOnes) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"put", "c", "--consumers", "33"}, "not a whole number from 1 to 32"},
      {{"put", "c", "--mode", "stramed"}, "did you mean 'streamed'?"},
      {{"get", "c", "--when-slow", "drop_oldes"}, "did you mean 'drop-oldest'?"},
      {{"get", "c@127.0.0.1", "--path", "fabrc"}, "did you mean 'fabric'?"},
      {{"get", "c", "--users", "nobody-of-that-name"}, "there is no such user here"},
      {{"put", "c", "--patience", "25h"}, "it is 0 s to 24 h"},
      {{"get", "c", "--stall-limit", "999ms"}, "it is 1 s to 24 h"}};
  for (const auto& [arguments, why] : wrong) {
    const auto ended = run(gantry(arguments));
    EXPECT_EQ(ended.status, 2) << ended.errors;
    EXPECT_THAT(ended.errors, AllOf(IsOneLine(), HasSubstr(why)));
  }
}

TEST_F(Cli, APathIsOfAnotherHostsChannel) {
  for (const char* verb : {"put", "get", "mirror"}) {
    const auto ended = run(gantry({verb, "c", "--path", "stream"}));
    EXPECT_EQ(ended.status, 1) << verb;
    EXPECT_THAT(ended.errors, AllOf(IsOneLine(), HasSubstr("'c' is a channel of this host"),
                                    HasSubstr("NAME@HOST")));
  }
}

// ---- waiting -----------------------------------------------------------------------------------

// Terminal or not: whoever reads a service's log is to see it.
TEST_F(Cli, GetSaysWhatItWaitsForAndWhatThereIs) {
  Subprocess putting(put({"photos"}, "x"));
  ASSERT_TRUE(listed("photos"));
  Subprocess getting(gantry({"get", "phtos", "--timeout", "3"}));
  const Ended ended = getting.wait().value_or(Ended{});
  EXPECT_THAT(ended.errors,
              HasSubstr("gantry: channel 'phtos' in " + scratch_.path() +
                        ": waiting for its producer; did you mean 'photos'? there is photos\n"));
  EXPECT_EQ(run(gantry({"get", "photos"})).output, "x");
}

TEST_F(Cli, PutSaysWhatElseThereIsWhileItWaits) {
  Subprocess other(put({"photos"}, "x"));
  ASSERT_TRUE(listed("photos"));
  Subprocess putting(put({"phtos"}, "y"));
  EXPECT_TRUE(
      putting.wait_errors("gantry get phtos is one; did you mean 'photos'? there is also "
                          "photos\n"));
  EXPECT_EQ(run(gantry({"get", "phtos"})).output, "y");
  EXPECT_EQ(run(gantry({"get", "photos"})).output, "x");
}

TEST_F(Cli, GetsDepthIsHowManyMessagesWaitForIt) {
  Command source = put({"c", "--lines"}, "");
  source.keep_input = true;
  Subprocess putting(source);
  Command reader = gantry({"get", "c", "--when-slow", "drop-oldest", "--depth", "2"});
  Subprocess getting(reader);
  ASSERT_TRUE(eventually([&] {
    return run(gantry({"ls", "c", "--json"})).output.find("\"depth_limit\": 2") !=
           std::string::npos;
  }));
  putting.close_input();
  EXPECT_EQ(getting.wait().value_or(Ended{}).status, 0);
  EXPECT_EQ(run(gantry({"get", "c", "--depth", "0"})).status, 2);
}

TEST_F(OnATerminal, PutSaysThatItWaitsForAConsumer) {
  Subprocess putting(with("2>", put({"photos"}, "x")));
  EXPECT_THAT(read_until("\n"),
              HasSubstr("gantry: channel 'photos' in " + scratch_.path() +
                        ": waiting for a consumer, 0 of 1 have come; gantry get photos is one"));
  EXPECT_EQ(run(gantry({"get", "photos"})).output, "x");
  EXPECT_EQ(putting.wait().value_or(Ended{}).status, 0);
}

}  // namespace
}  // namespace gantry::test
