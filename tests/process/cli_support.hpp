#pragma once  // tests/process/cli_support.hpp: `gantry` with a runtime directory of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>

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
  OnATerminal() {
    const winsize window{.ws_row = 25, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    std::array<char, 256> name{};
    EXPECT_EQ(::openpty(&master_, &slave_, name.data(), nullptr, &window), 0);
    path_ = name.data();
  }
  ~OnATerminal() override {
    ::close(master_);
    ::close(slave_);
  }
  /// `redirection`: "2>" for standard error, ">" for standard output.
  [[nodiscard]] Command with(const std::string& redirection, Command command) const {
    command.argv.insert(command.argv.begin(),
                        {"sh", "-c", "exec \"$0\" \"$@\" " + redirection + " " + path_});
    return command;
  }
  /// What the terminal shows up to `text`, and more.
  const std::string& read_until(std::string_view text) {
    constexpr int kLongMs = 60'000;  // for what should not take long
    pollfd readable{master_, POLLIN, 0};
    while (seen_.find(text) == std::string::npos && ::poll(&readable, 1, kLongMs) == 1) {
      std::array<char, 4096> bytes{};
      const ssize_t got = ::read(master_, bytes.data(), bytes.size());
      if (got <= 0) break;
      seen_.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return seen_;
  }
  int master_ = -1;
  int slave_ = -1;
  std::string path_;
  std::string seen_;
};

/// One line, by the contract "gantry: what: why[; hint]".
MATCHER(IsOneLine, "") {
  return arg.starts_with("gantry: ") && arg.ends_with("\n") &&
         std::count(arg.begin(), arg.end(), '\n') == 1;
}

}  // namespace gantry::test
