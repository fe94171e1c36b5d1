#include "net/remote/remote_name.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <gantry/bridge.hpp>

namespace gantry {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

const std::string kUsualPort = std::to_string(kBridgePort);

void expect_host(std::string_view text, std::string_view host, std::string_view port) {
  const auto parsed = parse_host(text);
  ASSERT_TRUE(parsed) << text << ": " << to_string(parsed.error());
  EXPECT_EQ(parsed->host, host) << text;
  EXPECT_EQ(parsed->port, port) << text;
  const auto again = parse_host(parsed->text());
  ASSERT_TRUE(again) << parsed->text();
  EXPECT_EQ(again->host, host) << text;
  EXPECT_EQ(again->port, port) << text;
}

void expect_no_host(const std::string& text) {
  const auto parsed = parse_host(text);
  ASSERT_FALSE(parsed) << text << " was taken for " << parsed->text();
  EXPECT_EQ(parsed.error().code, Code::invalid_argument) << text;
  EXPECT_THAT(parsed.error().message, HasSubstr("'" + text + "'"));
  EXPECT_FALSE(parsed.error().hint.empty()) << text;
}

TEST(RemoteHost, HasThePortOfABridgeUnlessOneIsGiven) {
  expect_host("camera", "camera", kUsualPort);
  expect_host("camera:1", "camera", "1");
  expect_host("camera.example.org:65535", "camera.example.org", "65535");
  expect_host("127.0.0.1:0", "127.0.0.1", "0");  // any free one, to listen on
  expect_host("a", "a", kUsualPort);
}

// A port has no letters or points, so whoever wrote it meant something else.
TEST(RemoteHost, AWordThatIsNearlyTlsIsToldSo) {
  for (const char* const word : {"tsl", "tl", "ssl", "TLS", "ttls"}) {
    const auto parsed = parse_host(std::string(word) + ":127.0.0.2");
    ASSERT_FALSE(parsed) << word;
    EXPECT_EQ(parsed.error().hint, "did you mean tls:127.0.0.2?") << word;
  }
  EXPECT_THAT(parse_host("tsl:99999").error().hint, HasSubstr("write HOST"));
  EXPECT_THAT(parse_host("camera:x").error().hint, HasSubstr("write HOST"));
}

TEST(RemoteHost, OfIPv6StandsInBracketsIfAPortFollows) {
  expect_host("::1", "::1", kUsualPort);
  expect_host("[::1]", "::1", kUsualPort);
  expect_host("[::1]:80", "::1", "80");
  expect_host("::1:80", "::1:80", kUsualPort);  // an address, too
  expect_host("[fe80::1%eth0]:4711", "fe80::1%eth0", "4711");
  expect_host("[camera]:80", "camera", "80");
  EXPECT_EQ((HostPort{"::1", "80"}.text()), "[::1]:80");
  EXPECT_EQ((HostPort{"camera", "80"}.text()), "camera:80");
}

TEST(RemoteHost, IsTheSameInTextWithoutAPort) {
  for (const std::string text : {"camera", "[::1]", "camera:80", "[::1]:80"}) {
    const auto parsed = parse_bridge_address(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->port, text.ends_with("80") ? "80" : "") << text;
    EXPECT_EQ(parsed->text(), text);
  }
}

TEST(RemoteHost, IsRefusedWithoutAWholePort) {
  for (const char* const port : {"", "65536", "-1", "+1", " 1", "1 ", "0x10", "http", "1.5",
                                 "4294967376", "99999999999999999999"}) {
    expect_no_host("camera:"s + port);
    expect_no_host("[::1]:"s + port);
  }
  for (const char* const text : {"[::1]80", "[::1] :80", "[::1]]:80", "[::1", "[", "[:80"})
    expect_no_host(text);
}

TEST(RemoteHost, IsRefusedWithoutAName) {
  for (const char* const text :
       {"", ":80", "[]", "[]:80", " ", "a b", " a", "a ", "a\tb", "a\n", "a/b", "a@b", "a]", "a[b",
        "x]:y:z", "[[::1]", "]", "-oProxyCommand=x", "-"})
    expect_no_host(text);
  expect_no_host("a\0b"s);
}

TEST(RemoteHost, IsAsLongAsANameMayBe) {
  expect_host(std::string(253, 'h'), std::string(253, 'h'), kUsualPort);
  expect_host(std::string(253, 'h') + ":80", std::string(253, 'h'), "80");
  expect_no_host(std::string(254, 'h'));
  expect_no_host(std::string(254, 'h') + ":80");
  expect_no_host("[" + std::string(254, ':') + "]");
  expect_no_host(std::string(100'000, ':'));
}

TEST(RemoteHost, MayBeReachedByTls) {
  for (const std::string text : {"tls:camera:80", "tls:[::1]:80", "tls:unix:80", "tls:tls:80"}) {
    const auto parsed = parse_host(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_TRUE(parsed->is_encrypted) << text;
    EXPECT_EQ(parsed->port, "80");
    EXPECT_EQ(parsed->text(), text);
    EXPECT_EQ((*parse_remote_name("frames@" + text))->text(), "frames@" + text);
  }
  EXPECT_EQ(parse_host("tls:camera")->text(), "tls:camera:" + kUsualPort);
  EXPECT_EQ(parse_host("tls:tls")->text(), "tls:tls:" + kUsualPort) << "a host of that name";
  EXPECT_FALSE(parse_host("tls:80")->is_encrypted) << "a host of that name";
  expect_host("tls:80", "tls", "80");
  expect_host("tls", "tls", kUsualPort);
  for (const std::string& text : {"tls:"s, "tls:tls:a"s, "tls:unix:/x"s, "tls: a"s, "tls:a:http"s})
    EXPECT_EQ(parse_host(text).error().code, Code::invalid_argument) << text;
}

TEST(RemoteHost, MayBeASocket) {
  for (const std::string& path : {"/x"s, "/a b/@:80"s, "/"s + std::string(106, 'p')}) {
    const auto parsed = parse_host("unix:" + path);
    ASSERT_TRUE(parsed) << path;
    EXPECT_EQ(parsed->path, path);
    EXPECT_EQ(parsed->host + parsed->port, "");
    EXPECT_EQ(parsed->text(), "unix:" + path);
    EXPECT_EQ((*parse_remote_name("frames@unix:" + path))->text(), "frames@unix:" + path);
  }
  expect_host("unix", "unix", kUsualPort);
  expect_host("unix:80", "unix", "80");
  for (const std::string& text : {"unix:x"s, "unix:"s, "Unix:/x"s}) expect_no_host(text);
  for (const std::string& path : {"/"s + std::string(107, 'p'), "/a\nb"s, "/a\0b"s})
    EXPECT_EQ(parse_host("unix:" + path).error().code, Code::invalid_argument) << path;
}

TEST(RemoteName, IsOneOfThisHostWithoutAnAt) {
  for (const char* const name : {"frames", "", "a b", "a:80", "[::1]"}) {
    const auto parsed = parse_remote_name(name);
    ASSERT_TRUE(parsed) << name;
    EXPECT_FALSE(*parsed) << name;
  }
}

TEST(RemoteName, IsAChannelAndAHost) {
  const std::string longest(64, 'c');
  for (const std::string& channel : {"frames"s, "a.b_c-9"s, longest}) {
    const auto parsed = parse_remote_name(channel + "@[::1]:81");
    ASSERT_TRUE(parsed && *parsed) << channel;
    EXPECT_EQ((*parsed)->channel, channel);
    EXPECT_EQ((*parsed)->where.host, "::1");
    EXPECT_EQ((*parsed)->where.port, "81");
    EXPECT_EQ((*parsed)->text(), channel + "@[::1]:81");
  }
  EXPECT_EQ((*parse_remote_name("frames@camera"))->text(), "frames@camera:" + kUsualPort);
}

TEST(RemoteName, IsRefusedIfEitherPartIsNone) {
  const std::string too_long(65, 'c');
  for (const std::string& name :
       {"@"s, "@camera"s, "frames@"s, "frames@@camera"s, "frames@camera@camera"s,
        "frames@camera:80@x"s, ".frames@camera"s, "a/b@camera"s, "a b@camera"s, " frames@camera"s,
        "frames @camera"s, "frames@ camera"s, "frames@camera "s, "fr\0mes@camera"s,
        too_long + "@camera", "frames@" + std::string(254, 'h'), "frames@camera:"s,
        "frames@camera:65536"s, "frames@[::1"s}) {
    const auto parsed = parse_remote_name(name);
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().code, Code::invalid_argument) << name;
  }
}

}  // namespace
}  // namespace gantry
