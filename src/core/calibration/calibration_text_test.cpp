#include "core/calibration/calibration_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gantry {
namespace {

using ::testing::HasSubstr;

Calibration sample() {
  Calibration calibration;
  calibration.machine = "cpu X; cpus 2";
  calibration.source = Calibration::Source::full;
  calibration.streaming_from = 33554432;
  calibration.cache_share = 4194304;
  calibration.helping_gain = 1.25;
  calibration.engines = {{"inline", false, {{64, 30.5, 31, 31}, {4096, 120, 121, 122}}},
                         {"dsa", true, {{64, 1200, 300, 250}}}};
  calibration.engines[0].reshapes = {{{{4096, 210.5, 211, 212}, {65536, 3300, 3301, 3302}},
                                      {{4096, 180, 181, 182}},
                                      {{12288, 900, 901, 902}}}};
  return calibration;
}

TEST(CalibrationText, ComesBackAsItWas) {
  const auto read = read_calibration(write_calibration(sample()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->machine, sample().machine);
  EXPECT_EQ(read->source, sample().source);
  EXPECT_EQ(read->streaming_from, sample().streaming_from);
  EXPECT_EQ(read->cache_share, sample().cache_share);
  EXPECT_EQ(read->helping_gain, sample().helping_gain);
  ASSERT_EQ(read->engines.size(), 2u);
  EXPECT_EQ(read->engines[0].engine, "inline");
  EXPECT_FALSE(read->engines[0].simulated);
  EXPECT_TRUE(read->engines[1].simulated);
  ASSERT_EQ(read->engines[0].points.size(), 2u);
  EXPECT_EQ(read->engines[0].points[1].bytes, 4096u);
  EXPECT_EQ(read->engines[0].points[0].synchronous_ns, 30.5);
  EXPECT_EQ(read->engines[0].points[1].caller_ns, 122);
  const auto& reshapes = read->engines[0].reshapes;
  ASSERT_EQ(reshapes[0].size(), 2u);  // narrowing
  EXPECT_EQ(reshapes[0][0].synchronous_ns, 210.5);
  EXPECT_EQ(reshapes[0][1].bytes, 65536u);
  ASSERT_EQ(reshapes[2].size(), 1u);  // permuting
  EXPECT_EQ(reshapes[2][0].queued_ns, 901);
  EXPECT_TRUE(read->engines[1].reshapes[0].empty());
  EXPECT_EQ(write_calibration(*read), write_calibration(sample()));
}

// A write that broke off, at any byte.
TEST(CalibrationText, IsRefusedWhenCutOff) {
  const std::string whole = write_calibration(sample());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(read_calibration(whole.substr(0, size))) << size;
}

struct Damage {
  const char* what;
  std::string from;
  std::string to;
};

TEST(CalibrationText, IsRefusedWhenDamaged) {
  const std::vector<Damage> damages{
      {"the version before", "gantry-calibration 2", "gantry-calibration 1"},
      {"a later version", "gantry-calibration 2", "gantry-calibration 20"},
      {"an unknown key", "cache-share", "cache-shares"},
      {"no number", "streaming-from 33554432", "streaming-from many"},
      {"a negative size", "cache-share 4194304", "cache-share -1"},
      {"a number with more behind", "cache-share 4194304", "cache-share 4194304x"},
      {"not finite", "point 64 30.5 31 31", "point 64 inf 31 31"},
      {"nothing at all", "point 64 30.5 31 31", "point 64 0 31 31"},
      {"not a number", "point 64 30.5 31 31", "point 64 nan 31 31"},
      {"too few costs", "point 64 30.5 31 31", "point 64 30.5 31"},
      {"too many costs", "point 64 30.5 31 31", "point 64 30.5 31 31 31"},
      {"sizes that fall", "point 4096", "point 32"},
      {"a size twice", "point 4096", "point 64"},
      {"an engine twice", "engine dsa", "engine inline"},
      {"an engine without a name", "engine dsa simulated", "engine  simulated"},
      {"a name that is a path", "engine dsa", "engine ../dsa"},
      {"a strange kind", "dsa simulated", "dsa guessed"},
      {"an engine without points", "point 64 1200 300 250\n", ""},
      {"a key twice", "source full", "source full\nsource full"},
      {"no machine", "machine cpu X; cpus 2\n", ""},
      {"an unknown source", "source full", "source defaults"},
      {"a gain beyond reason", "helping-gain 1.25", "helping-gain 1e9"},
      {"a point of no engine", "engine inline measured\n", ""},
      {"a class that there is not", "reshape widening", "reshape sideways"},
      {"a reshape without a class", "reshape widening 4096", "reshape 4096"},
      {"too few costs of a reshape", "4096 180 181 182", "4096 180 181"},
      {"too many costs of a reshape", "4096 180 181 182", "4096 180 181 182 183"},
      {"no time for a reshape", "4096 180 181 182", "4096 180 -1 182"},
      {"sizes of reshapes that fall", "narrowing 65536", "narrowing 64"},
      {"a reshape before its engine's points", "point 64 1200",
       "reshape widening 64 1 1 1\npoint 64 1200"},
      {"a point behind reshapes", "engine dsa", "point 8192 1 1 1\nengine dsa"},
      {"a reshape of no engine", "engine inline measured\n",
       "reshape widening 64 1 1 1\nengine inline measured\n"},
      {"more after the end", "\nend\n", "\nend\npoint 1 1 1 1\n"},
      {"an empty line", "source full", "\nsource full"},
  };
  for (const Damage& damage : damages) {
    std::string text = write_calibration(sample());
    const auto at = text.find(damage.from);
    ASSERT_NE(at, std::string::npos) << damage.what;
    text.replace(at, damage.from.size(), damage.to);
    EXPECT_FALSE(read_calibration(text)) << damage.what;
  }
}

TEST(CalibrationText, NamesTheLine) {
  std::string text = write_calibration(sample());
  text.replace(text.find("source"), 6, "sauce!");
  const auto read = read_calibration(text);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("line 3"));
}

TEST(CalibrationText, SaysThatItsVersionIsAnother) {
  std::string text = write_calibration(sample());
  text.replace(text.find('2'), 1, "1");
  const auto read = read_calibration(text);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("version '1', this program's is 2"));
}

TEST(CalibrationText, SurvivesRandomBytes) {
  std::string text = write_calibration(sample());
  std::uint32_t random = 1;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = text;
    for (int j = 0; j < 3; ++j) {
      random = random * 1664525u + 1013904223u;
      damaged[random % damaged.size()] = static_cast<char>(random >> 24);
    }
    if (const auto read = read_calibration(damaged)) {  // a digit for a digit
      for (const auto& engine : read->engines) {
        EXPECT_FALSE(engine.points.empty());
      }
    }
  }
}

}  // namespace
}  // namespace gantry
