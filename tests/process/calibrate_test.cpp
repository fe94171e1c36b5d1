// `gantry calibrate`, and what `gantry doctor` says of calibrations and choices.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli_support.hpp"

namespace gantry::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Calibrate : public Cli {
 protected:
  [[nodiscard]] Command calibrate(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "calibrate");
    return cached(arguments);
  }
  [[nodiscard]] Command cached(const std::vector<std::string>& arguments) const {
    Command command = gantry(arguments);
    command.env.emplace_back("XDG_CACHE_HOME", cache_.path());
    return command;
  }
  [[nodiscard]] std::vector<std::string> kept() const {
    std::vector<std::string> names;
    if (!fs::exists(cache_.file("gantry"))) return names;
    for (const auto& entry : fs::directory_iterator(cache_.file("gantry")))
      if (entry.path().extension() != ".lock") names.push_back(entry.path());
    return names;
  }
  [[nodiscard]] nlohmann::json doctor() const {
    const auto ended = run(cached({"doctor", "--json"}));
    EXPECT_EQ(ended.status, 0) << ended.errors;
    return nlohmann::json::parse(ended.output);
  }

  ScratchDirectory cache_;
};

TEST_F(Calibrate, MeasuresAndKeeps) {
  const auto ended = run(calibrate({"--quick", "--json"}));
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, IsEmpty());
  const auto document = nlohmann::json::parse(ended.output);
  EXPECT_EQ(document["source"], "quick");
  EXPECT_EQ(document["kept"], true);
  EXPECT_EQ(document["engines"][0]["engine"], "inline");
  EXPECT_GT(document["engines"][0]["points"].size(), 0u);
  for (const char* kind : {"narrowing", "widening", "permuting"})
    EXPECT_GT(document["engines"][0]["reshapes"][kind].size(), 0u) << kind;
  ASSERT_EQ(kept().size(), 1u);
  EXPECT_EQ(document["path"], kept()[0]);
  // The next process takes it.
  const auto shown = run(calibrate({"--show", "--json"}));
  EXPECT_EQ(nlohmann::json::parse(shown.output)["engines"], document["engines"]);
  EXPECT_EQ(doctor()["calibration"]["source"], "quick");
}

TEST_F(Calibrate, ShowsTablesToAPerson) {
  const auto ended = run(calibrate({"--quick"}));
  ASSERT_EQ(ended.status, 0) << ended.errors;
  for (const char* word : {"CALIBRATION", "quick", "kept in", "SIZE", "inline awaited", "1 MiB",
                           "RESHAPE", "narrowing", "widening", "permuting"})
    EXPECT_THAT(ended.output, HasSubstr(word));
  EXPECT_THAT(ended.errors, HasSubstr("calibrating: what the engines cost\n"));
  EXPECT_THAT(run(cached({"doctor"})).output, HasSubstr("permuting"));
}

TEST_F(Calibrate, OnlyLooksWhenAskedToShow) {
  const auto ended = run(calibrate({"--show"}));
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.output, HasSubstr("nothing was measured"));
  EXPECT_THAT(cache_.entries(), IsEmpty());
}

TEST_F(Calibrate, InterruptedKeepsNothing) {
  Subprocess calibrating(calibrate({}));
  ASSERT_TRUE(calibrating.wait_errors("calibrating: "));
  calibrating.signal(SIGINT);
  const auto ended = calibrating.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 130);
  EXPECT_THAT(ended->output, IsEmpty());
  EXPECT_THAT(kept(), IsEmpty());
}

TEST_F(Calibrate, IgnoresADamagedFileAndReplacesIt) {
  ASSERT_EQ(run(calibrate({"--quick"})).status, 0);
  const std::string file = kept().at(0);
  std::ofstream(file) << "gantry-calibration 2\nrubbish\n";
  const auto calibration = doctor()["calibration"];
  EXPECT_EQ(calibration["source"], "defaults");
  EXPECT_THAT(calibration["note"].get<std::string>(), HasSubstr(file + ": line 2"));
  EXPECT_THAT(run(cached({"doctor"})).output, HasSubstr("line 2 makes no sense"));
  EXPECT_THAT(run(cached({"doctor"})).output, HasSubstr(file + " (not used: see the note)"));
  ASSERT_EQ(run(calibrate({"--quick"})).status, 0);
  EXPECT_EQ(doctor()["calibration"]["note"], "");
}

TEST_F(Calibrate, TwoAtOnceAreOne) {
  ASSERT_EQ(run(calibrate({"--quick"})).status, 0);
  const int lock = ::open((kept().at(0) + ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(lock, 0);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  const auto second = run(calibrate({"--quick"}));
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.errors, HasSubstr("another process is at it"));
  ::close(lock);
  EXPECT_EQ(run(calibrate({"--quick"})).status, 0);
}

TEST_F(Calibrate, SaysWhenItCannotBeKept) {
  std::ofstream(cache_.file("gantry")) << "a file in the way";
  const auto ended = run(calibrate({"--quick"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.output, HasSubstr("CALIBRATION"));  // measured it has been
  EXPECT_THAT(ended.errors, HasSubstr("the calibration was not kept"));
}

TEST_F(Calibrate, WorksWithoutAHome) {
  Command command = calibrate({"--show", "--json"});
  command.env.emplace_back("XDG_CACHE_HOME", "");
  command.env.emplace_back("HOME", "");
  const auto ended = run(command);
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const auto document = nlohmann::json::parse(ended.output);
  EXPECT_EQ(document["path"], "");
  EXPECT_THAT(document["note"].get<std::string>(), HasSubstr("HOME"));
}

TEST_F(Calibrate, DoctorExplainsASampleOfChoices) {
  const auto choices = doctor()["choices"];
  ASSERT_GE(choices.size(), 6u);
  for (const auto& choice : choices) {
    EXPECT_NE(choice["reasons"].size(), 0u);
    bool named = false;
    for (const auto& candidate : choice["candidates"])
      named = named || candidate["engine"] == choice["engine"];
    EXPECT_TRUE(named) << choice;
  }
  EXPECT_EQ(choices[0]["engine"], "inline");  // 4 KiB
  EXPECT_THAT(run(cached({"doctor"})).output, HasSubstr("A COPY OF"));
  // A doctor only looks. Drivers of devices that it asks may keep a cache of their own (PoCL).
  EXPECT_FALSE(fs::exists(cache_.file("gantry")));
}

TEST_F(Calibrate, WrongUsageIsTwo) {
  EXPECT_EQ(run(calibrate({"--quik"})).status, 2);
  EXPECT_EQ(run(calibrate({"extra"})).status, 2);
}

}  // namespace
}  // namespace gantry::test
