// Processes of one kernel that share a folder and no other name.
#include <filesystem>
#include <fstream>

#include "cli_support.hpp"

namespace gantry::test {
namespace {

/// With mounts, processes, a network and an IPC of its own.
Command apart(Command command) {
  command.argv.insert(command.argv.begin(), {"unshare", "-mpnif", "--kill-child"});
  return command;
}

TEST_F(Cli, NamespacesReachEachOtherByASocketAndShareMemory) {
  Command nothing;
  nothing.argv = {"true"};
  if (run(apart(nothing)).status != 0) GTEST_SKIP() << "no namespaces may be made here";
  const ScratchDirectory here;
  const std::string token = here.path() + "/.token";
  std::ofstream(token) << "a token of 24 characters\n";
  std::filesystem::permissions(token, std::filesystem::perms::owner_read);
  const std::string socket = here.path() + "/.bridge";
  Subprocess bridge(gantry({"bridge", "--listen", "unix:" + socket, "--token-file", token}));
  ASSERT_TRUE(eventually([&] { return ::access(socket.c_str(), F_OK) == 0; }));
  const std::string bytes = random_bytes(20'000'001);
  Subprocess putting(put({"c"}, bytes));
  Command getting = apart(gantry({"get", "c@unix:" + socket, "--path", "shared"}));
  getting.env.front().second = here.path();
  getting.env.emplace_back("GANTRY_TOKEN_FILE", token);
  const Ended got = run(getting);
  EXPECT_EQ(got.status, 0) << got.errors;
  EXPECT_TRUE(got.output == bytes) << got.errors;
  EXPECT_EQ(putting.wait().value_or(Ended{}).status, 0);
  getting.argv.back() = "fabric";
  const Ended refused = run(getting);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors, ::testing::AllOf(IsOneLine(), ::testing::HasSubstr("path fabric")));
}

}  // namespace
}  // namespace gantry::test
