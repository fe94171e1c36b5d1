// Programs on two hosts: processes of one kernel that share a folder and no other name, and what a
// bridge that ends says to them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gantry/runtime.hpp>

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

/// One that nobody listens on now.
unsigned free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const words = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(socket, words, size), 0);
  EXPECT_EQ(::getsockname(socket, words, &size), 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

// Its last words are on their way through a thread when the process ends.
TEST_F(Cli, ABridgeThatEncryptsSaysWhyItEnds) {
  const ScratchDirectory here;
  const std::string token = here.path() + "/.token";
  std::ofstream(token) << "a token of 24 characters\n";
  std::filesystem::permissions(token, std::filesystem::perms::owner_read);
  const std::string bytes = random_bytes(1 << 20);
  for (int round = 0; round < 8; ++round) {
    const std::string address = "tls:127.0.0.1:" + std::to_string(free_port());
    Subprocess bridge(gantry({"bridge", "--listen", address, "--token-file", token}));
    ASSERT_TRUE(bridge.wait_errors("listening on " + address + "; all"));
    Command put = gantry({"put", "c"});
    put.keep_input = true;
    Subprocess putting(put);
    putting.write_input(bytes);
    Command get = gantry({"get", "c@" + address});
    get.env.front().second = here.path();
    get.env.emplace_back("GANTRY_TOKEN_FILE", token);
    Subprocess getting(get);
    ASSERT_TRUE(getting.wait_output(bytes.substr(0, 1000)));
    for (int i = 0; i < 40; ++i) putting.write_input(bytes);
    ASSERT_TRUE(getting.wait_output(bytes.substr(bytes.size() - 1000)));
    bridge.signal(SIGINT);
    const Ended got = getting.wait().value_or(Ended{});
    EXPECT_EQ(got.status, 1);
    EXPECT_THAT(got.errors, ::testing::HasSubstr("the bridge there was ended by its user"));
    EXPECT_EQ(bridge.wait().value_or(Ended{}).status, 130);
  }
}

// Its process, and the one that the kernel knows at the socket, is the bridge.
TEST_F(Cli, AReaderBehindABridgeIsShownAsItself) {
  const ScratchDirectory here;
  const std::string token = here.path() + "/.token";
  std::ofstream(token) << "a token of 24 characters\n";
  std::filesystem::permissions(token, std::filesystem::perms::owner_read);
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  Subprocess bridge(gantry({"bridge", "--listen", address, "--token-file", token}));
  ASSERT_TRUE(bridge.wait_errors("listening on " + address));
  Command source = put({"c", "--lines"}, "first\n");
  source.keep_input = true;
  const Subprocess putting(source);
  Command get = gantry({"get", "c@" + address});
  get.env.front().second = here.path();
  get.env.emplace_back("GANTRY_TOKEN_FILE", token);
  get.env.emplace_back("GANTRY_STAGE", "score");
  get.env.emplace_back("GANTRY_REPLICA", "1");
  get.env.emplace_back("GANTRY_REPLICAS", "2");
  Subprocess getting(get);
  ASSERT_TRUE(getting.wait_output("first\n"));
  const auto list = list_channels(scratch_.path());
  ASSERT_TRUE(list && list->size() == 1 && list->front().consumers.size() == 1);
  const ConsumerStatus& reader = list->front().consumers.front();
  EXPECT_EQ(reader.pid, putting.pid());  // the bridge has handed the connection over
  EXPECT_EQ(reader.who, (EndName{own_end_name().host, "gantry get", "score", 1, 2}));
  bridge.signal(SIGINT);
  const std::string said = bridge.wait().value_or(Ended{}).errors;
  const std::string time = "gantry: [0-9]+-[0-9]+-[0-9]+ [0-9]+:[0-9]+:[0-9]+: ";
  EXPECT_THAT(said, ::testing::ContainsRegex(time + "bridge: listening on "));
  EXPECT_THAT(said, ::testing::ContainsRegex(time + "127.0.0.1:[0-9]+ .score.1 of "));
}

}  // namespace
}  // namespace gantry::test
