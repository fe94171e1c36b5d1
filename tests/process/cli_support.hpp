#pragma once  // tests/process/cli_support.hpp: `gantry` with a runtime directory of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "support/screen.hpp"
#include "support/subprocess.hpp"

namespace gantry::test {

inline std::string random_bytes(std::size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class Cli : public ::testing::Test {
 protected:
  [[nodiscard]] Command gantry(const std::vector<std::string>& arguments) const {
    Command command;
    command.argv = {GANTRY_CLI};
    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    command.env = {
        {"GANTRY_DIR", scratch_.path()}, {"GANTRY_ENGINE", ""}, {"GANTRY_CALIBRATE", "off"}};
    return command;
  }
  [[nodiscard]] Command put(const std::vector<std::string>& arguments, std::string input) const {
    Command command = gantry({"put"});
    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    command.input = std::move(input);
    return command;
  }
  /// Until the channel's producer listens.
  [[nodiscard]] bool listed(const std::string& name) const {
    return eventually([&] { return run(gantry({"ls"})).output.find(name) != std::string::npos; });
  }
  void expect_nothing_left() const { EXPECT_THAT(scratch_.entries(), ::testing::IsEmpty()); }

  ScratchDirectory scratch_;
};

/// A terminal of 80 columns, which a command's streams may be.
class OnATerminal : public Cli {
 protected:
  /// `redirection`: "2>" for standard error, ">" for standard output.
  [[nodiscard]] Command with(const std::string& redirection, Command command) const {
    command.argv.insert(command.argv.begin(),
                        {"sh", "-c", "exec \"$0\" \"$@\" " + redirection + " " + terminal_.path()});
    command.env.emplace_back("TERM", "xterm");
    command.env.emplace_back("NO_COLOR", "");
    return command;
  }
  /// What the terminal shows up to `text`, and more.
  const std::string& read_until(std::string_view text) { return terminal_.read_until(text); }

  TestTerminal terminal_;
};

/// One line, by the contract "gantry: what: why[; hint]".
MATCHER(IsOneLine, "") {
  return arg.starts_with("gantry: ") && arg.ends_with("\n") &&
         std::count(arg.begin(), arg.end(), '\n') == 1;
}

}  // namespace gantry::test
