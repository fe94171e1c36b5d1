#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <gantry/stage.hpp>
#include <limits>
#include <random>

#include "core/base/test_effort.hpp"

namespace gantry {

static bool operator==(const StageEndpoint::Link& a, const StageEndpoint::Link& b) {
  return a.address == b.address && a.metrics_descriptor == b.metrics_descriptor;
}
static bool operator==(const StageEndpoint& a, const StageEndpoint& b) {
  return a.channel == b.channel && a.output == b.output && a.transport == b.transport &&
         a.slots == b.slots && a.budget_bytes == b.budget_bytes && a.links == b.links &&
         a.as == b.as;
}

namespace {

using ::testing::HasSubstr;

std::vector<StageEndpoint> some_ends() {
  return {{"frames", true, Transport::gantry, 8, 0, {{"frames.0-0", 7}, {"frames.0-1", 8}}},
          {"typed", true, Transport::gantry, 8, 0, {{"typed.0-0", 9}}, "f32 -> i8[32,bf16]"},
          {"frames", false, Transport::pipe, 1, 1, {{"12", -1}}},
          {"a;b:c,d@e%f g\nh\xff",
           true,
           Transport::pipe,
           64,
           std::numeric_limits<Bytes>::max(),
           {{"/run/user/1000/gantry/run-5/x,y@z;q", std::numeric_limits<int>::max()}}}};
}

Code decode_error(std::string_view text) {
  const auto ends = decode_stage_endpoints(text);
  return ends ? Code::closed : ends.error().code;  // `closed` never comes from decoding
}

TEST(StageWiring, ComesBackAsItWas) {
  const auto text = encode_stage_endpoints(some_ends());
  const auto decoded = decode_stage_endpoints(text);
  ASSERT_TRUE(decoded) << to_string(decoded.error());
  EXPECT_EQ(*decoded, some_ends());
}

TEST(StageWiring, IsOnePrintableWord) {
  const auto text = encode_stage_endpoints(some_ends());
  for (const char c : text) EXPECT_TRUE(c > ' ' && c < 127) << static_cast<int>(c);
}

TEST(StageWiring, NoEndsAtAllComeBackToo) {
  const auto decoded = decode_stage_endpoints(encode_stage_endpoints({}));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->empty());
}

TEST(StageWiring, RefusesWhatIsNotExactlyRight) {
  for (const char* text : {"",
                           "2",
                           "1;",
                           "1;;",
                           "1;a:out:gantry:8:0",
                           "1;a:out:gantry:8:0:",
                           "1;a:out:gantry:8:0:x",
                           "1;a:out:gantry:8:0:x@",
                           "1;a:out:gantry:8:0:x@1@2",
                           "1;a:out:gantry:8:0:x@-2",
                           "1;a:out:gantry:8:0:x@2147483648",
                           "1;a:out:gantry:8:0:@1",
                           "1;:out:gantry:8:0:x@1",
                           "1;a:up:gantry:8:0:x@1",
                           "1;a:out:carrier:8:0:x@1",
                           "1;a:out:gantry:0:0:x@1",
                           "1;a:out:gantry:65:0:x@1",
                           "1;a:out:gantry:+8:0:x@1",
                           "1;a:out:gantry: 8:0:x@1",
                           "1;a:out:gantry:8:-1:x@1",
                           "1;a:out:gantry:8:0:x@1,",
                           "1;a:out:gantry:8:0:x@1;",
                           "1;a%4:out:gantry:8:0:x@1",
                           "1;a%zz:out:gantry:8:0:x@1",
                           "1;a b:out:gantry:8:0:x@1",
                           "1;a:out:gantry:8:0:x@1:",
                           "1;a:out:gantry:8:0:x@1:bf17",
                           "1;a:out:gantry:8:0:x@1:f32%20->%20bf16",
                           "1;a:out:gantry:8:0:x@1:bf16:f32",
                           "1;a:in:gantry:8:0:x@1:bf16",
                           "1;a:out:gantry:8:0:x@1;a:out:pipe:8:0:3@1",
                           "1;a:out:gantry:8:99999999999999999999:x@1"})
    EXPECT_EQ(decode_error(text), Code::invalid_argument) << text;
}

TEST(StageWiring, TheErrorNamesVariableAndPlace) {
  const auto decoded = decode_stage_endpoints("1;a:out:gantry:99:0:x@1");
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr(kStageEndpointsVariable));
  EXPECT_THAT(decoded.error().message, HasSubstr("'99'"));
}

TEST(StageWiring, ErrorsStayOnOneLine) {
  for (const char* text : {"1;a\nb:out:gantry:8:0:x@1", "\n\n", "1;a:out:x\ny:8:0:x@1"})
    EXPECT_EQ(to_string(decode_stage_endpoints(text).error()).find('\n'), std::string::npos);
}

// Whatever decodes must mean the same when encoded again; the rest must be refused cleanly.
void check_stable(const std::string& text) {
  const auto decoded = decode_stage_endpoints(text);
  if (!decoded) {
    EXPECT_EQ(decoded.error().code, Code::invalid_argument);
    return;
  }
  const auto again = decode_stage_endpoints(encode_stage_endpoints(*decoded));
  ASSERT_TRUE(again) << text;
  EXPECT_EQ(*again, *decoded) << text;
}

TEST(StageWiring, SurvivesRandomText) {
  std::mt19937 random(test_seed(20260701));
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 80, '\0');
    for (char& c : text) c = static_cast<char>(random());
    check_stable(text);
  }
}

TEST(StageWiring, SurvivesDamagedText) {
  std::mt19937 random(test_seed(20260702));
  const std::string good = encode_stage_endpoints(some_ends());
  const std::string_view letters = "0189afz%:;,@-./ \n";
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (auto changes = random() % 4 + 1; changes > 0 && !text.empty(); --changes) {
      const auto at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, random() % 20);
      else
        text[at] = letters[random() % letters.size()];
    }
    check_stable(text);
  }
}

TEST(StageWiring, WithoutALauncherThereAreNoEnds) {
  ::unsetenv(kStageEndpointsVariable);
  const auto ends = own_stage_endpoints();
  ASSERT_TRUE(ends);
  EXPECT_TRUE(ends->empty());
  const auto input = stage_input("frames");
  ASSERT_FALSE(input);
  EXPECT_EQ(input.error().code, Code::not_found);
  EXPECT_THAT(to_string(input.error()), HasSubstr("gantry run"));
}

TEST(StageWiring, AnUnknownEndIsNamedWithThoseThereAre) {
  ::setenv(kStageEndpointsVariable, encode_stage_endpoints(some_ends()).c_str(), 1);
  const auto output = stage_output("farmes");
  ::unsetenv(kStageEndpointsVariable);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, Code::not_found);
  EXPECT_THAT(output.error().message, HasSubstr("'farmes'"));
  EXPECT_THAT(output.error().hint, HasSubstr("'frames'"));
}

TEST(StageWiring, TransportsHaveNames) {
  for (const auto transport : {Transport::gantry, Transport::pipe})
    EXPECT_EQ(parse_transport(to_string(transport)).value(), transport);
  EXPECT_FALSE(parse_transport("carrier"));
}

TEST(StageWiring, EveryTransportIsListed) {
  ASSERT_EQ(transports().size(), 2u);
  for (const auto& status : transports()) {
    EXPECT_TRUE(parse_transport(status.name)) << status.name;
    EXPECT_TRUE(status.usable) << status.name;
  }
}

}  // namespace
}  // namespace gantry
