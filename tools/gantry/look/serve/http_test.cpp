#include "look/serve/http.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gantry::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Http, TakesOneRequestAfterTheOther) {
  std::string bytes =
      "GET /history.json?channel=run-1/c HTTP/1.1\r\nHOST:  localhost:1 \r\n"
      "accept: text/html\r\nConnection: close\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n";
  const auto first = take_request(bytes);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->is_sound);
  EXPECT_EQ(first->method, "GET");
  EXPECT_EQ(first->path, "/history.json");
  EXPECT_EQ(first->query, "channel=run-1/c");
  EXPECT_EQ(first->host, "localhost:1");
  EXPECT_EQ(first->accept, "text/html");
  EXPECT_FALSE(first->keeps_alive);
  EXPECT_EQ(bytes, "HEAD / HTTP/1.1\r\nHost: a\r\n");
  EXPECT_FALSE(take_request(bytes));
  bytes += "\r\n";
  const auto second = take_request(bytes);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->method, "HEAD");
  EXPECT_TRUE(second->keeps_alive);
  EXPECT_EQ(bytes, "");
}

// RFC 9112: whatever two servers could cut differently is refused by this one.
TEST(Http, WhatIsNoSuchRequestIsNotSound) {
  const std::string line = "GET / HTTP/1.1\r\n";
  const std::string honest = line + "Host: a\r\n";
  for (const std::string& head : {std::string(),
                                  std::string("nonsense"),
                                  std::string("GET  HTTP/1.1\r\nHost: a"),
                                  std::string("GET / HTTP/2\r\nHost: a"),
                                  std::string("GET / HTTP/1.1 \r\nHost: a"),
                                  std::string("GET / HTTP/1.\r\nHost: a"),
                                  std::string("GET / HTTP/1.11\r\nHost: a"),
                                  std::string("GET /  HTTP/1.1\r\nHost: a"),
                                  std::string("GET\t/ HTTP/1.1\r\nHost: a"),
                                  std::string("G(T / HTTP/1.1\r\nHost: a"),
                                  std::string("GET * HTTP/1.1\r\nHost: a"),
                                  std::string("GET http:/// HTTP/1.1\r\nHost: a"),
                                  std::string("GET http://me@x/ HTTP/1.1\r\nHost: a"),
                                  std::string("GET https://x/ HTTP/1.1\r\nHost: a"),
                                  line + "Accept: a",
                                  line + "Host: a b",
                                  line + "Host: a\r\nHost: a",
                                  line + "Host : a",
                                  honest + "Authorization: x\r\nAuthorization: y",
                                  honest + "Content-Length: 5",
                                  honest + "Content-Length: 0\r\nContent-Length: 5",
                                  honest + "Content-Length : 5",
                                  honest + "Content-Length: 0\r\nContent-Length: 0",
                                  honest + "Content-Length: 0, 5",
                                  honest + "Content-Length: +0",
                                  honest + "Content-Length:",
                                  honest + "Transfer-Encoding: chunked",
                                  honest + "Transfer-Encoding:",
                                  honest + "Content-Length: 0\r\nTransfer-Encoding : chunked",
                                  honest + "X: a\r\n Content-Length: 5",
                                  honest + "X: a\r\n\tb",
                                  honest + "X",
                                  honest + ": a",
                                  honest + "X Y: a",
                                  honest + "X: a\nContent-Length: 5",
                                  honest + "X: a\rContent-Length: 5",
                                  honest + "X: a\r",
                                  honest + "X: \x7f",
                                  honest + "X: a" + std::string(1, '\0')}) {
    std::string bytes = head + "\r\n\r\n";
    const auto request = take_request(bytes);
    ASSERT_TRUE(request) << head;
    EXPECT_FALSE(request->is_sound) << head;
  }
}

// They are not waited for: no end of theirs would be one.
TEST(Http, LinesThatNothingCanMendAreRefusedBeforeTheirEnd) {
  for (const char* head : {"GET / HTTP/1.1\nHost: a\n\n", "\x16\x03\x01", "GET /\rx"}) {
    std::string bytes = head;
    const auto request = take_request(bytes);
    ASSERT_TRUE(request) << head;
    EXPECT_FALSE(request->is_sound) << head;
  }
  std::string fine = "GET / HTTP/1.1\r";
  EXPECT_FALSE(take_request(fine));
}

TEST(Http, ALongRequestIsNotTakenWhereverItEnds) {
  const std::string begin = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  for (const std::size_t more : {0, 1}) {
    std::string bytes =
        begin + std::string(kMostRequestBytes - begin.size() - 4 + more, 'x') + "\r\n\r\n";
    EXPECT_EQ(take_request(bytes).has_value(), more == 0);
    EXPECT_EQ(bytes.empty(), more == 0);
  }
}

TEST(Http, ProbesOfOldAreSoundAndNeedNoHost) {
  std::string bytes =
      "\r\nGET /metrics HTTP/1.0\r\n\r\n"
      "GET HTTP://localhost:1/metrics?a HTTP/1.1\r\nHost: elsewhere\r\nContent-Length: 0\r\n\r\n"
      "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: a, CLOSE\r\nConnection: b\r\n\r\n"
      "GET http://localhost HTTP/1.1\r\nHost: a\r\n\r\n";
  const auto old = take_request(bytes);
  ASSERT_TRUE(old);
  EXPECT_TRUE(old->is_sound);
  EXPECT_EQ(old->path, "/metrics");
  EXPECT_FALSE(old->host);
  EXPECT_FALSE(old->keeps_alive);
  const auto absolute = take_request(bytes);
  ASSERT_TRUE(absolute);
  EXPECT_TRUE(absolute->is_sound);
  EXPECT_EQ(absolute->host, "localhost:1");
  EXPECT_EQ(absolute->path, "/metrics");
  EXPECT_EQ(absolute->query, "a");
  EXPECT_TRUE(absolute->keeps_alive);
  const auto all = take_request(bytes);
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->is_sound);
  EXPECT_FALSE(all->keeps_alive);
  const auto bare = take_request(bytes);
  ASSERT_TRUE(bare);
  EXPECT_TRUE(bare->is_sound);
  EXPECT_EQ(bare->path, "/");
}

TEST(Http, OnlyAddressesAndLocalhostArePlainHosts) {
  for (const char* host : {"localhost", "LocalHost:9464", "127.0.0.1", "127.0.0.1:80", "[::1]",
                           "[::1]:9464", "10.1.2.3:1"})
    EXPECT_TRUE(is_plain_host(host)) << host;
  for (const char* host :
       {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1:x",
        "[::1", "[::1]x", "[localhost]", "[127.0.0.1]", ":80", "localhost:80:80", "1", "[]"})
    EXPECT_FALSE(is_plain_host(host)) << host;
}

TEST(Http, TheTokenIsABearersOrAPassword) {
  const std::string token = "sixteen letters!";
  EXPECT_TRUE(knows_token("Bearer sixteen letters!", token));
  EXPECT_TRUE(knows_token("bearer  sixteen letters!", token));
  EXPECT_TRUE(knows_token("Basic bWU6c2l4dGVlbiBsZXR0ZXJzIQ==", token));  // me:...
  EXPECT_TRUE(knows_token("Basic OnNpeHRlZW4gbGV0dGVycyE=", token));      // nobody's
  for (const char* wrong :
       {"", "Bearer", "Bearer sixteen letters", "Bearer sixteen letters!!", "sixteen letters!",
        "Basic sixteen letters!", "Basic c2l4dGVlbiBsZXR0ZXJzIQ==", "Basic ====", "Digest x"})
    EXPECT_FALSE(knows_token(wrong, token)) << wrong;
}

TEST(Http, AnAnswerForbidsWhatThePageDoesNotNeed) {
  HttpRequest request;
  const HttpResponse response{.type = "text/html", .body = "<p>"};
  const std::string text = to_text(response, request);
  EXPECT_THAT(text,
              StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n"));
  EXPECT_THAT(text, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self';"));
  EXPECT_THAT(text, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(text, EndsWith("\r\n\r\n<p>"));
  request.method = "HEAD";
  request.keeps_alive = false;
  EXPECT_THAT(to_text(response, request), EndsWith("Connection: close\r\n\r\n"));
  EXPECT_THAT(to_text(response, request), HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(text, Not(HasSubstr("Connection: close")));
}

}  // namespace
}  // namespace gantry::cli
