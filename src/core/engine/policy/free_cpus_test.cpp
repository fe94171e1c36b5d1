#include "core/engine/policy/policy_engine.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gantry {
namespace {

class FreeCpusOf : public ::testing::Test {
 protected:
  FreeCpusOf() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~FreeCpusOf() override { std::filesystem::remove_all(folder_); }
  std::string loadavg(const std::string& text) {
    const std::string path = folder_ + "/loadavg";
    std::ofstream(path) << text;
    return path;
  }

 private:
  std::string folder_ = std::filesystem::temp_directory_path() / "gantry-cpus-XXXXXX";
};

TEST_F(FreeCpusOf, CountTheCallerAndOthersAsBusy) {
  EXPECT_EQ(FreeCpus(4, loadavg("0.20 0.18 0.12 1/80 11206\n")).besides_caller(0), 3);
  EXPECT_EQ(FreeCpus(4, loadavg("0.20 0.18 0.12 3/80 11206\n")).besides_caller(0),
            2);  // the first look counts half
  EXPECT_EQ(FreeCpus(4, loadavg("0.20 0.18 0.12 9/80 11206\n")).besides_caller(0), 0);
}

TEST_F(FreeCpusOf, CountOwnWorkersAsFree) {
  EXPECT_EQ(FreeCpus(2, loadavg("0.20 0.18 0.12 2/80 11206\n")).besides_caller(1), 1);
  EXPECT_EQ(FreeCpus(2, loadavg("0.20 0.18 0.12 1/80 11206\n")).besides_caller(1), 1);
}

TEST_F(FreeCpusOf, KnowNoneBesideASingleOne) {
  EXPECT_EQ(FreeCpus(1, loadavg("0.20 0.18 0.12 1/80 11206\n")).besides_caller(0), 0);
}

TEST_F(FreeCpusOf, SupposeTheBestWhereNothingIsTold) {
  EXPECT_EQ(FreeCpus(4, "/nowhere/loadavg").besides_caller(0), 3);
  EXPECT_EQ(FreeCpus(4, loadavg("nonsense")).besides_caller(0), 3);
  EXPECT_EQ(FreeCpus(4, loadavg("a b c d/e f")).besides_caller(0), 3);
}

TEST_F(FreeCpusOf, AreThoseOfTheAffinityUnlessTold) {
  EXPECT_GE(FreeCpus(0).cpus(), 1);
  EXPECT_EQ(FreeCpus(1.5).cpus(), 1.5);
}

}  // namespace
}  // namespace gantry
