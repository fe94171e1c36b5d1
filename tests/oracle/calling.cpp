// Servers and their clients.
#include <fmt/format.h>
#include <deque>
#include <optional>

#include "oracle/part.hpp"

namespace gantry::oracle {
namespace {

Id reply_to(Id id) noexcept {
  return {id.stream | Id::kReply, id.epoch, id.number};
}

std::vector<std::byte> payload_of(const Part& part, Id id) {
  std::vector<std::byte> bytes(part.scenario.size_of(id));
  fill(bytes, id);
  return bytes;
}

// ---- the server ----------------------------------------------------------------------------

class Servant {
 public:
  explicit Servant(Part& part) : part_(part) {}

  void run() {
    if (!open()) return;
    for (;;) {
      auto request = part_.timed("Server::next()", kLook,
                                 [&](Deadline deadline) { return server_->next(deadline); });
      if (request) {
        take(std::move(*request));
      } else if (request.error().code != Code::timed_out) {
        give_up("Server::next()", request.error());
      } else if (part_.is_over(0)) {
        break;
      }
      while (waiting_.size() > (request ? part_.dice.up_to(4) : 0)) answer_one();
    }
  }

 private:
  bool open() {
    ServerOptions options;
    options.channel = part_.consumer_options();
    options.replies = part_.producer_options();
    while (!server_ && !part_.is_over(0)) {
      auto opened = part_.runtime.server(kChannelNames[0], options);
      if (opened)
        server_.emplace(std::move(*opened));
      else if (opened.error().code != Code::already_exists)
        give_up("opening a server", opened.error());
    }
    return server_.has_value();
  }
  static Id id_of(const Request& request) { return Id::unpack(request.message().info().type); }

  void take(Request request) {
    const Id id = id_of(request);
    if (check_message(request.message(), id, "Server::next()") != part_.scenario.size_of(id))
      give_up(fmt::format("the request {} has another size", to_string(id)));
    if (part_.role.lags_us != 0) sleep_us(part_.dice.up_to(part_.role.lags_us));
    waiting_.push_back(std::move(request));
  }
  void answer_one() {
    const std::size_t index = part_.dice.up_to(waiting_.size() - 1);
    Request request = std::move(waiting_[index]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
    const Id id = id_of(request);
    check_message(request.message(), id, "a request, before its answer");
    if (part_.dice.chance(5)) return;
    if (part_.dice.chance(5)) {
      static_cast<void>(request.refuse({Code::permission_denied, "not today", ""}));
      return;
    }
    const std::chrono::microseconds time(part_.dice.up_to(2000));
    const auto replied = part_.timed(
        "reply()", time, [&](Deadline deadline) { return reply(request, reply_to(id), deadline); });
    if (replied) return;
    const Code code = replied.error().code;
    if (code != Code::peer_gone && code != Code::timed_out && !part_.is_starvation(replied.error()))
      give_up("reply()", replied.error());
  }
  Result<void> reply(Request& request, Id id, Deadline deadline) {
    const ReplyOptions options{.deadline = deadline, .type = id.pack()};
    const Bytes size = part_.scenario.size_of(id);
    if (size == 0 || part_.dice.chance(50)) return request.reply(payload_of(part_, id), options);
    auto loan = request.loan(size, deadline);
    if (!loan) return tl::unexpected(loan.error());
    fill(loan->bytes(), id);
    return request.reply(std::move(*loan), options);
  }

  Part& part_;
  std::optional<Server> server_;
  std::deque<Request> waiting_;
};

// ---- a client ------------------------------------------------------------------------------

class Caller {
 public:
  explicit Caller(Part& part) : part_(part) {}

  void run() {
    connect();
    for (unsigned number = 0; number < part_.role.messages; ++number) {
      if (number > 5 * (forked_ + 1) && forked_ < part_.role.forks) copy_process();
      ask({part_.role.stream, part_.life, number});
      while (asked_.size() > part_.dice.up_to(6)) await_one();
      if (is_cut_) reconnect();
    }
    while (!asked_.empty()) await_one();
    held_.clear();
  }

 private:
  struct Asked {
    Id id;
    PendingReply pending;
    bool hurried;
  };

  void connect() {
    for (const Deadline end = Deadline::after(kPatience); !client_;) {
      auto come = part_.timed("Client::connect()", kLook, [&](Deadline deadline) {
        const ProducerOptions options = part_.producer_options();
        return part_.runtime.client(kChannelNames[0], {options, options}, deadline);
      });
      if (come)
        client_.emplace(std::move(*come));
      else if (end.passed())
        give_up("Client::connect()", come.error());
    }
  }
  void reconnect() {
    asked_.clear();
    const Deadline end = Deadline::after(kPatience);
    while (is_cut_) {
      const auto come = part_.timed("Client::reconnect()", kLook, [&](Deadline deadline) {
        return client_->reconnect(deadline);
      });
      if (!come && end.passed()) give_up("Client::reconnect()", come.error());
      is_cut_ = !come;
    }
  }
  void copy_process() {
    ++forked_;
    fork_copy(part_, [this](Dice& dice) {
      const std::array<std::byte, 8> bytes{};
      const CallOptions options{.deadline = Deadline::after(kLook)};
      if (dice.chance(30) && client_->call_async(bytes, options))
        give_up("call_async() in a copy of the process said success");
      asked_.clear();
      client_.reset();
    });
  }

  void ask(Id id) {
    const bool hurried = part_.dice.chance(part_.role.hurried);
    const std::chrono::nanoseconds time =
        hurried ? std::chrono::microseconds(part_.dice.up_to(3000)) : kPatience;
    CallOptions options;
    options.type = id.pack();
    part_.board.fate(id) = Fate::attempted;
    auto pending = part_.timed("call_async()", time, [&](Deadline deadline) {
      options.deadline = deadline;
      return client_->call_async(payload_of(part_, id), options);
    });
    if (!pending) return judge(id, hurried, pending.error());
    part_.board.fate(id) = Fate::sent;
    asked_.push_back({id, std::move(*pending), hurried});
    if (part_.dice.chance(4)) {
      asked_.back().pending.cancel();
      asked_.pop_back();
    }
  }
  void await_one() {
    const std::size_t index = part_.dice.up_to(asked_.size() - 1);
    Asked one = std::move(asked_[index]);
    asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(index));
    auto reply = part_.timed("PendingReply::wait()", kPatience,
                             [&](Deadline deadline) { return one.pending.wait(deadline); });
    if (!reply) return judge(one.id, one.hurried, reply.error());
    const Id expected = reply_to(one.id);
    if (reply->info().type != expected.pack())
      give_up(fmt::format("{} was answered with {}", to_string(one.id),
                          to_string(Id::unpack(reply->info().type))));
    if (check_message(*reply, expected, "a reply") != part_.scenario.size_of(expected))
      give_up(fmt::format("{} has another size", to_string(expected)));
    held_.emplace_back(std::move(*reply), expected);
    while (held_.size() > part_.dice.up_to(2)) {
      check_message(held_.front().first, held_.front().second, "a reply, before its release");
      held_.pop_front();
    }
  }
  // Refused, dropped, or the server's memory did not suffice.
  void judge(Id id, bool hurried, const Error& error) {
    if (error.code == Code::peer_gone) {
      is_cut_ = true;
      return;
    }
    const bool fine = error.code == Code::permission_denied || error.code == Code::aborted ||
                      (error.code == Code::timed_out && hurried) || part_.is_starvation(error);
    if (!fine) give_up(to_string(id), error);
  }

  Part& part_;
  std::optional<Client> client_;
  std::deque<Asked> asked_;
  std::deque<std::pair<Message, Id>> held_;
  unsigned forked_ = 0;
  bool is_cut_ = false;
};

}  // namespace

void serve(Part& part) {
  Servant(part).run();
}
void call(Part& part) {
  Caller(part).run();
}

}  // namespace gantry::oracle
