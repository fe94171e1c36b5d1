// A server and a client of it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <gantry/call.hpp>
#include <thread>
#include <tuple>

#include "attack/honest.hpp"
#include "attack/worlds.hpp"

namespace gantry::attack {
namespace {

using test::pattern;
using test::same;
using test::soon;

// The replies are the requests; those of honest clients have a type.
class ServerWorld final : public World {
 public:
  explicit ServerWorld(const ProducerOptions& options) : options_(options) {
    server_.emplace(*Server::open("frames", test::server_options(options), engine()));
    connect();
  }
  ~ServerWorld() override { end(); }

  std::string exchange(unsigned count) override {
    std::string wrong;
    serve_while([&] {
      for (unsigned i = 0; i < count && wrong.empty(); ++i) wrong = call(i);
    });
    return wrong;
  }
  Result<void> join(Deadline deadline) override {
    Result<void> joined;
    serve_while([&] {
      auto client = Client::connect("frames", test::client_options(options_), engine(), deadline);
      if (!client) joined = tl::unexpected(client.error());
    });
    return joined;
  }
  std::uint64_t pump(std::chrono::nanoseconds time) override {
    std::uint64_t answered = 0;
    serve_while([&] {
      std::uint64_t number = 0;
      answered = repeat_for(time, [&] {
        const CallOptions options{.deadline = soon(), .type = kHonest};
        return !!client_->call(payload_of(number++), options);
      });
    });
    return answered;
  }
  std::vector<TimedCall> timed_calls() override {
    std::vector<TimedCall> all;
    all.push_back({"Server::next", [&](Deadline by) { std::ignore = server_->next(by); }});
    all.push_back({"Client::connect", [&](Deadline by) {
                     std::ignore =
                         Client::connect("frames", test::client_options(options_), engine(), by);
                   }});
    add_calls_of_client(all);
    add_calls_of_request(all);
    return all;
  }
  bool has_peer(int pid) override {
    for (unsigned i = 0; i < 64; ++i) {
      auto request = server_->next(Deadline::after(std::chrono::milliseconds(1)));
      if (!request) break;
      if (request->sender().pid == pid) of_peer_.emplace(std::move(*request));
    }
    return of_peer_ && !of_peer_->is_cancelled();
  }
  void end() override {
    of_peer_.reset();
    server_.reset();
  }

 private:
  // Nobody serves.
  void add_calls_of_client(std::vector<TimedCall>& all) {
    const auto empty = [&] { take_all(); };
    const auto full = [&] {
      take_all();
      for (unsigned i = 0; i < options_.slots; ++i) std::ignore = ask(std::chrono::milliseconds(9));
    };
    const auto asking = [](Deadline by) { return CallOptions{.deadline = by, .type = kHonest}; };
    all.push_back(
        {"Client::call",
         [&, asking](Deadline by) { std::ignore = client_->call(pattern(100, 1), asking(by)); },
         empty});
    all.push_back({"PendingReply::wait", [&](Deadline by) { std::ignore = pending_->wait(by); },
                   [&] {
                     take_all();
                     pending_ = ask(std::chrono::seconds(60)).value_or(PendingReply());
                   }});
    all.push_back({"Client::call_async",
                   [&, asking](Deadline by) {
                     std::ignore = client_->call_async(pattern(100, 1), asking(by));
                   },
                   full});
    all.push_back(
        {"Client::loan", [&](Deadline by) { std::ignore = client_->loan(100, by); }, full});
  }
  // Its client keeps as many replies as it has room for.
  void add_calls_of_request(std::vector<TimedCall>& all) {
    const auto full = [&] {
      unread_.clear();
      take_all();
      for (unsigned i = 0; i <= options_.slots; ++i) {
        if (of_peer_) std::ignore = of_peer_->reply(pattern(100, 1));
        if (auto asked = ask(std::chrono::seconds(60))) unread_.push_back(std::move(*asked));
        take_own();
      }
    };
    all.push_back({"Request::reply",
                   [&](Deadline by) {
                     if (of_peer_) std::ignore = of_peer_->reply(pattern(100, 1), {.deadline = by});
                   },
                   full});
    all.push_back({"Request::loan",
                   [&](Deadline by) {
                     if (of_peer_) std::ignore = of_peer_->loan(100, by);
                   },
                   full});
    all.push_back({"Request::is_cancelled",
                   [&](Deadline) {
                     if (of_peer_) std::ignore = of_peer_->is_cancelled();
                   },
                   full});
  }
  Result<PendingReply> ask(std::chrono::nanoseconds time) {
    return client_->call_async(pattern(100, 1),
                               {.deadline = Deadline::after(time), .type = kHonest});
  }
  /// Requests are dropped, those of attackers, too: as many as there are, or may be for ever.
  void take_all() {
    of_peer_.reset();
    for (unsigned i = 0; i < 64; ++i)
      if (!server_->next(Deadline::after(std::chrono::milliseconds(1)))) return;
  }
  /// Until the next request of our own client's.
  void take_own() {
    of_peer_.reset();
    for (unsigned i = 0; i < 64 && !of_peer_; ++i) {
      auto request = server_->next(Deadline::after(std::chrono::seconds(1)));
      if (request && request->message().info().type == kHonest) of_peer_ = std::move(*request);
    }
    EXPECT_TRUE(of_peer_) << "the request does not arrive";
  }
  void connect() {
    serve_while([&] {
      client_.emplace(*Client::connect("frames", test::client_options(options_), engine(), soon()));
    });
  }
  template <class Body>
  void serve_while(Body body) {
    std::atomic<bool> enough{false};
    std::thread serving([&] {
      while (!enough) {
        auto request = server_->next(Deadline::after(std::chrono::milliseconds(5)));
        if (request) static_cast<void>(request->reply(request->message().bytes()));
      }
    });
    body();
    enough = true;
    serving.join();
  }
  std::string call(unsigned number) {
    const auto payload = pattern(size_of(number), number);
    const auto reply = client_->call(payload, {.deadline = soon(), .type = kHonest});
    if (!reply) return reply.error().message;
    return same(reply->bytes(), payload) ? "" : fmt::format("reply {} has other bytes", number);
  }
  ProducerOptions options_;
  std::optional<Server> server_;
  std::optional<Client> client_;
  std::optional<PendingReply> pending_;
  std::vector<PendingReply> unread_;
  std::optional<Request> of_peer_;
};

}  // namespace

std::unique_ptr<World> make_server_world(const ProducerOptions& options) {
  return std::make_unique<ServerWorld>(options);
}

}  // namespace gantry::attack
