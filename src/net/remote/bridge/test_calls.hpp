#pragma once  // remote/bridge/test_calls.hpp: a service there, and its clients here.

#include "net/remote/bridge/test_remote.hpp"

namespace gantry::test {

class RemoteCalls : public TwoHosts {
 protected:
  [[nodiscard]] Server serve() const {
    return Server::open("service", server_options(there()), std::make_shared<PlainEngine>())
        .value();
  }
  [[nodiscard]] Result<Client> try_connect(const std::string& host = {},
                                           Deadline deadline = soon()) const {
    return open_remote_client(name("service", host).text(), client_options(here()),
                              std::make_shared<PlainEngine>(), deadline);
  }
  [[nodiscard]] Client connect(const std::string& host = {}) const {
    auto client = try_connect(host);
    EXPECT_TRUE(client) << to_string(client.error());
    return std::move(*client);
  }
  /// Begins a call that must not fail.
  static PendingReply ask(Client& client, ConstByteSpan payload,
                          const CallOptions& options = {.deadline = soon()}) {
    auto pending = client.call_async(payload, options);
    EXPECT_TRUE(pending) << to_string(pending.error());
    return std::move(*pending);
  }
  static void answer(Request& request, ConstByteSpan payload, std::uint32_t type = 0) {
    const auto done = request.reply(payload, {soon(), type});
    EXPECT_TRUE(done) << to_string(done.error());
  }
  static void expect_answer(PendingReply& pending, ConstByteSpan payload) {
    const auto reply = pending.wait(soon());
    ASSERT_TRUE(reply) << to_string(reply.error());
    EXPECT_TRUE(same(reply->bytes(), payload)) << payload.size();
  }
  static Error outcome(PendingReply& pending) {
    const auto reply = pending.wait(soon());
    return reply ? Error{Code::closed, "an answer", {}} : reply.error();
  }
  /// The channel there is named as it was asked for.
  void expect_names_it(const Error& error) const {
    EXPECT_EQ(error.message.find("channel 'service@" + bridge_->address() + "'"), 0u)
        << error.message;
  }
};

}  // namespace gantry::test
