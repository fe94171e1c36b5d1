// Redis as the way between two hosts: one end SETs a value and pushes its name onto a list, the
// other one, which waits at that list, GETs it; the answer is pushed onto a second list. The server
// is on one of both hosts, so one of SET and GET crosses the wire. By hiredis, as its users have
// it.

#include <hiredis.h>

#include <cstring>

#include "peer.hpp"

namespace gantry::bench {
namespace {

constexpr const char* kRequests = "requests";
constexpr const char* kReplies = "replies";

struct EndContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct EndReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, EndReply>;

/// A variant: "get" (the server is the asking end's) or "set" (the answering end's), its address
/// and its Unix socket.
struct Variant {
  bool gets = false;
  std::string host;
  int port = 0;
  std::string path;

  static Variant of(const std::string& text) {
    const auto blank = text.find(' ');
    const auto colon = text.find(':');
    const auto second = text.find(' ', colon);
    return {text.substr(0, blank) == "get", text.substr(blank + 1, colon - blank - 1),
            std::atoi(text.substr(colon + 1, second - colon - 1).c_str()), text.substr(second + 1)};
  }
};

/// A connection; commands go out together and are answered in their order.
class Connection {
 public:
  static Result<Connection> open(const Assignment& told) {
    const Variant variant = Variant::of(told.variant);
    const bool is_near = variant.gets == told.post.asks();
    Connection made(is_near ? redisConnectUnix(variant.path.c_str())
                            : redisConnect(variant.host.c_str(), variant.port));
    if (made.context_ == nullptr || made.context_->err != 0) return Unexpected(made.error());
    return made;
  }

  void add(std::initializer_list<std::string_view> words) {
    std::vector<const char*> data;
    std::vector<std::size_t> sizes;
    for (const std::string_view word : words) {
      data.push_back(word.data());
      sizes.push_back(word.size());
    }
    redisAppendCommandArgv(context_.get(), static_cast<int>(data.size()), data.data(),
                           sizes.data());
  }
  /// Whatever was added has gone.
  Result<void> flush() {
    for (int done = 0; done == 0;)
      if (redisBufferWrite(context_.get(), &done) != REDIS_OK) return Unexpected(error());
    return {};
  }
  Result<Reply> reply() {
    void* come = nullptr;
    if (redisGetReply(context_.get(), &come) != REDIS_OK) return Unexpected(error());
    Reply reply(static_cast<redisReply*>(come));
    if (reply->type != REDIS_REPLY_ERROR) return reply;
    return Unexpected(peer_error("Redis", {reply->str, static_cast<std::size_t>(reply->len)}));
  }
  Result<void> pass_over(unsigned replies) {
    for (; replies > 0; --replies)
      if (auto one = reply(); !one) return Unexpected(one.error());
    return {};
  }

 private:
  explicit Connection(redisContext* context) : context_(context) {}
  [[nodiscard]] Error error() const {
    return peer_error("Redis", context_ == nullptr ? "no memory" : context_->errstr);
  }

  std::unique_ptr<redisContext, EndContext> context_;
};

/// What BLPOP gave: a list's name and its first element.
Result<std::string_view> element_of(const Reply& reply) {
  if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
    return std::string_view(reply->element[1]->str,
                            static_cast<std::size_t>(reply->element[1]->len));
  return Unexpected(peer_error("BLPOP", "no element"));
}

std::string_view text_of(ConstByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class RedisRequester final : public Requester {
 public:
  RedisRequester(Connection connection, const Assignment& told)
      : connection_(std::move(connection)),
        server_(told.helper),
        in_flight_(told.what.in_flight),
        sets_before_(Variant::of(told.variant).gets && in_flight_ == 1) {}

  /// What is timed of "get" is the GET; not so with several in flight.
  Result<void> prepare(const Payload& payload) override {
    if (!sets_before_) return {};
    set(payload);
    return connection_.pass_over(std::exchange(owed_, 0));
  }
  Result<void> send(const Payload& payload) override {
    if (!sets_before_) set(payload);
    connection_.add({"RPUSH", kRequests, key()});
    ++owed_;
    ++sent_;
    return connection_.flush();
  }
  Result<std::uint64_t> receive() override {
    connection_.add({"BLPOP", kReplies, "0"});
    if (auto passed = connection_.pass_over(std::exchange(owed_, 0)); !passed)
      return Unexpected(passed.error());
    const auto reply = connection_.reply();
    if (!reply) return Unexpected(reply.error());
    const auto word = element_of(*reply);
    if (!word) return Unexpected(word.error());
    std::uint64_t sum = 0;
    if (word->size() != sizeof sum) return Unexpected(peer_error("BLPOP", "no sum"));
    std::memcpy(&sum, word->data(), sizeof sum);
    return sum;
  }
  std::vector<int> helpers() const override { return {server_}; }

 private:
  [[nodiscard]] std::string key() const { return std::to_string(sent_ % in_flight_); }
  void set(const Payload& payload) {
    connection_.add({"SET", key(), text_of(payload.bytes())});
    ++owed_;
  }

  Connection connection_;
  int server_;
  std::uint64_t in_flight_;
  bool sets_before_;
  std::uint64_t sent_ = 0;
  unsigned owed_ = 0;  // replies that nobody has looked at
};

/// Its wishes for the next messages are with the server before those come.
class RedisResponder final : public Responder {
 public:
  static Result<std::unique_ptr<Responder>> open(Connection requests, Connection replies,
                                                 const Case& what) {
    auto made = std::unique_ptr<RedisResponder>(
        new RedisResponder(std::move(requests), std::move(replies), what));
    for (unsigned i = 0; i < what.in_flight; ++i)
      if (auto wished = made->wish(); !wished) return Unexpected(wished.error());
    return made;
  }

  Result<std::uint64_t> receive() override {
    const auto name = requests_.reply();
    if (!name) return Unexpected(name.error());
    const auto value = requests_.reply();
    if (!value) return Unexpected(value.error());
    if ((*value)->type != REDIS_REPLY_STRING) return Unexpected(peer_error("GET", "no value"));
    const std::uint64_t sum =
        checksum(std::as_bytes(std::span((*value)->str, static_cast<std::size_t>((*value)->len))));
    if (auto wished = wish(); !wished) return Unexpected(wished.error());
    return sum;
  }
  Result<void> reply(std::uint64_t sum) override {
    replies_.add({"RPUSH", kReplies, text_of(std::as_bytes(std::span(&sum, 1)))});
    return replies_.pass_over(1);
  }

 private:
  RedisResponder(Connection requests, Connection replies, const Case& what)
      : requests_(std::move(requests)), replies_(std::move(replies)), in_flight_(what.in_flight) {}

  Result<void> wish() {
    requests_.add({"BLPOP", kRequests, "0"});
    requests_.add({"GET", std::to_string(wished_++ % in_flight_)});
    return requests_.flush();
  }

  Connection requests_;
  Connection replies_;  // the other one is held up by what it waits for
  std::uint64_t in_flight_;
  std::uint64_t wished_ = 0;
};

Result<std::unique_ptr<Requester>> open_requester(const Assignment& told) {
  auto connection = Connection::open(told);
  if (!connection) return Unexpected(connection.error());
  return std::make_unique<RedisRequester>(std::move(*connection), told);
}

Result<std::unique_ptr<Responder>> open_responder(const Assignment& told) {
  auto requests = Connection::open(told);
  auto replies = Connection::open(told);
  if (!requests || !replies) return Unexpected(requests ? replies.error() : requests.error());
  return RedisResponder::open(std::move(*requests), std::move(*replies), told.what);
}

/// Of its client; the server is the one in $PATH.
Result<std::string> version() {
  return version_text("hiredis " + std::to_string(HIREDIS_MAJOR) + "." +
                          std::to_string(HIREDIS_MINOR) + "." + std::to_string(HIREDIS_PATCH),
                      reinterpret_cast<const void*>(&redisConnect));
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_peer(argc, argv, {open_requester, open_responder, version});
}
