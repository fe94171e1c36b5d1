// `gantry serve` under strain: ends that fall silent, many of them, callers that leave or hurry.
#include <signal.h>

#include "serve_support.hpp"

namespace gantry::test {
namespace {

using nlohmann::json;

/// The channel's part of a status; null: it is not there.
json channel_of(const json& status, const std::string& name) {
  for (const json& one : status["channels"])
    if (one["name"] == name) return one;
  return {};
}

class ServeStrain : public Serve {
 protected:
  /// A producer whose lines are written to it.
  [[nodiscard]] Subprocess lines_into(const std::string& name) const {
    Command command = put({name, "--lines"}, "x\n");
    command.keep_input = true;
    return Subprocess(command);
  }
};

// A look at a silent end takes a second longer than the one before. What the others moved in half
// a second is not spread over that.
TEST_F(ServeStrain, ASilentEndDoesNotFalsifyTheRatesOfOthers) {
  const Subprocess server = serving();
  Subprocess honest = lines_into("honest");
  const Subprocess reading(gantry({"get", "honest"}));
  const Subprocess other = lines_into("other");
  json before;
  bool is_stopped = false;
  int turns = 0;  // looks that took longer, or shorter, than the one before, with a rate
  EXPECT_TRUE(eventually([&] {
    honest.write_input(std::string(999, 'x') + "\n");
    const json now = status();
    const json one = channel_of(now, "honest");
    const json last = before.is_null() ? json() : channel_of(before, "honest");
    if (one.is_null() || (!last.is_null() && now["look"] == before["look"])) return false;
    const json theirs = channel_of(now, "other");
    if (!last.is_null() && now["look"].get<int>() == before["look"].get<int>() + 1 &&
        !one["bytes_per_second"].is_null() && !theirs.is_null()) {
      const double seconds = (one["age_ns"].get<double>() - last["age_ns"].get<double>()) / 1e9;
      const double moved = one["bytes"].get<double>() - last["bytes"].get<double>();
      EXPECT_NEAR(one["bytes_per_second"].get<double>() * seconds, moved, 0.05 * moved) << turns;
      const json answered = channel_of(before, "other");
      if (!answered.is_null() && answered["answered"] != theirs["answered"]) ++turns;
    }
    before = now;
    if (!theirs.is_null() && theirs["answered"] == !is_stopped) {
      other.signal(is_stopped ? SIGCONT : SIGSTOP);
      is_stopped = !is_stopped;
    }
    return turns >= 2;
  }));
  other.signal(SIGCONT);
}

}  // namespace
}  // namespace gantry::test
