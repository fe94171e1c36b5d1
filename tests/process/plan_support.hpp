#pragma once  // tests/process/plan_support.hpp: `gantry plan` on files that a test writes.

#include <fstream>

#include "cli_support.hpp"

namespace gantry::test {

inline const std::vector<std::string> kOperator{"--m", "60", "--n",     "8",
                                                "--k", "16", "--ranks", "4"};
inline constexpr const char* kRing =
    "gantry-schedule 1 all-gather-gemm ring rows own-first piece 2 put";
inline constexpr const char* kPublished = "published/mi300x-8";

class PlanCli : public Cli {
 protected:
  [[nodiscard]] Ended plan(std::vector<std::string> words,
                           const std::vector<std::string>& more = {}) const {
    words.insert(words.begin(), "plan");
    words.insert(words.end(), more.begin(), more.end());
    return run(gantry(words));
  }
  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    std::string path = files_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  [[nodiscard]] std::string ring_text() const {
    return plan({"make", "--schedule", kRing, "--type", "f32"}, kOperator).output;
  }
  [[nodiscard]] std::string ring_file() const { return file("ring", ring_text()); }
  /// The same plan, but that no step waits for another.
  [[nodiscard]] std::string loose_file() const {
    std::string cut;
    std::istringstream in(ring_text());
    for (std::string line; std::getline(in, line);)
      cut += line.substr(0, line.find(" after")) + "\n";
    return file("loose", cut);
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& says) const {
    const auto ended = plan(words);
    EXPECT_EQ(ended.status, 1) << says;
    EXPECT_THAT(ended.errors, IsOneLine());
    EXPECT_THAT(ended.errors, ::testing::HasSubstr(says));
    EXPECT_THAT(ended.output, ::testing::IsEmpty());
  }

  ScratchDirectory files_;
};

}  // namespace gantry::test
