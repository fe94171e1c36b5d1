#include "serve/http.hpp"

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
      "accept: text/html\r\nConnection: close\r\n\r\nHEAD / HTTP/1.1\r\n";
  const auto first = take_request(bytes);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->is_sound);
  EXPECT_EQ(first->method, "GET");
  EXPECT_EQ(first->path, "/history.json");
  EXPECT_EQ(first->query, "channel=run-1/c");
  EXPECT_EQ(first->host, "localhost:1");
  EXPECT_EQ(first->accept, "text/html");
  EXPECT_FALSE(first->keeps_alive);
  EXPECT_EQ(bytes, "HEAD / HTTP/1.1\r\n");
  EXPECT_FALSE(take_request(bytes));
  bytes += "\r\n";
  const auto second = take_request(bytes);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->method, "HEAD");
  EXPECT_TRUE(second->keeps_alive);
  EXPECT_EQ(bytes, "");
}

TEST(Http, WhatIsNoSuchRequestIsNotSound) {
  for (const char* head :
       {"", "nonsense", "GET  HTTP/1.1", "GET / HTTP/2", "GET http://x/ HTTP/1.1",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b", "GET / HTTP/1.1\r\nContent-Length: 5",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked"}) {
    std::string bytes = std::string(head) + "\r\n\r\n";
    const auto request = take_request(bytes);
    ASSERT_TRUE(request) << head;
    EXPECT_FALSE(request->is_sound) << head;
  }
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
