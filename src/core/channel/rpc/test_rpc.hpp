#pragma once  // channel/rpc/test_rpc.hpp: a server and its clients in one scratch directory.

#include <gtest/gtest.h>

#include <gantry/call.hpp>

#include "core/channel/test_support.hpp"

namespace gantry::test {

class Calls : public testing::Test {
 protected:
  Server open() {
    return *Server::open("service", server_options(channel_),
                         std::make_shared<test::PlainEngine>());
  }
  Client connect() {
    auto client = Client::connect("service", client_options(channel_),
                                  std::make_shared<test::PlainEngine>(), soon());
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  /// Returns `closed` for an answer, else the error's code.
  static Code outcome(PendingReply& pending, Deadline deadline = soon()) {
    const auto reply = pending.wait(deadline);
    return reply ? Code::closed : reply.error().code;
  }
  static Code no_request(Server& server) {
    const auto request = server.next(Deadline::now());
    return request ? Code::closed : request.error().code;
  }

  test::ScratchDirectory directory_;
  ProducerOptions channel_ = options_in(directory_);
};

}  // namespace gantry::test
