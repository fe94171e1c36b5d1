#include "fault/caller.hpp"

#include "core/base/clock.hpp"
#include "fault/asking.hpp"
#include "fault/awaiting.hpp"

namespace gantry::fault {
namespace {

constexpr std::uint64_t kAtATime = 3;
constexpr std::chrono::microseconds kHurry{300};

CallOptions options_for(Ask ask) {
  if (ask == Ask::hurried) return {.deadline = Deadline::after(kHurry)};
  if (ask == Ask::loaned) return {.deadline = Deadline::after(std::chrono::seconds(20))};
  return {};
}

Task<> await_reply(PendingReply& pending, EventLoop& loop, std::optional<Result<Message>>& outcome,
                   std::size_t& left) {
  outcome.emplace(co_await reply(pending, loop));
  if (--left == 0) loop.stop();
}

}  // namespace

Caller::Caller(const Part& part, Server server) : part_(part), server_(server) {
  connect();
}

// A server that dies may do so while it lets us in.
void Caller::connect() {
  const Deadline end = Deadline::after(std::chrono::seconds(20));
  for (;;) {
    auto come = patiently(part_, [&](Deadline deadline) {
      return Client::connect("service", calling_options(part_), part_.engine, deadline);
    });
    if (come) {
      client_.emplace(std::move(*come));
      return;
    }
    if (!is_loss(come.error()) || end.passed()) give_up("coming to the server", come.error());
  }
}

bool Caller::is_loss(const Error& error) {
  if (error.code != Code::peer_gone || server_ == Server::lives || part_.may_stop) return false;
  note_gone(part_, asked_ns_);
  lost_ = true;
  return true;
}

void Caller::burst(std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t id = first; id < first + count;) {
    asked_ns_ = monotonic_ns();
    for (std::uint64_t i = 0; i < kAtATime && id < first + count; ++i) begin(id++);
    settle_all();
    if (!std::exchange(lost_, false)) continue;
    const auto again =
        patiently(part_, [&](Deadline deadline) { return client_->reconnect(deadline); });
    if (again) continue;
    if (!is_loss(again.error())) give_up("coming to the next server", again.error());
    connect();
  }
}

void Caller::begin(std::uint64_t id) {
  std::vector<std::byte> request(payload_bytes(part_.scenario, id));
  fill_payload(request, number_of(part_.sender, id));
  const Ask ask = ask_of(part_.scenario, id);
  auto begun = client_->call_async(request, options_for(ask));
  if (begun) {
    if (ask == Ask::cancelled)
      begun->cancel();
    else
      calls_.push_back({id, std::move(*begun), {}});
    return;
  }
  const bool is_late = ask == Ask::hurried && begun.error().code == Code::timed_out;
  if (!is_late && !is_loss(begun.error())) give_up(fmt::format("asking {}", id), begun.error());
}

void Caller::settle_all() {
  if (part_.scenario.awaits) await_all();
  for (Call& call : calls_) {
    if (!call.outcome) call.outcome = settle(call.pending);
    judge(call.id, *call.outcome);
    const bool is_late = !*call.outcome && call.outcome->error().code == Code::timed_out;
    call.outcome.reset();   // its slot is for the next reply
    if (is_late) continue;  // over, and nobody took an outcome
    const auto again = call.pending.wait(Deadline::now());
    if (again || again.error().code != Code::invalid_argument)
      give_up(fmt::format("call {} ended twice", call.id));
  }
  calls_.clear();
}

// The newest first: whoever is asked takes what came for the others.
void Caller::await_all() {
  if (calls_.empty()) return;
  Awaiting awaiting(part_);
  std::size_t left = calls_.size();
  for (auto call = calls_.rbegin(); call != calls_.rend(); ++call)
    awaiting.loop().spawn(await_reply(call->pending, awaiting.loop(), call->outcome, left));
  awaiting.run();
  if (left != 0) give_up(fmt::format("{} calls wait where nobody resumes them", left));
}

Result<Message> Caller::settle(PendingReply& pending) const {
  const Deadline end = Deadline::after(std::chrono::seconds(20));
  for (;;) {
    auto outcome = pending.wait(limit(part_));
    if (outcome || outcome.error().code != Code::timed_out || pending.is_over()) return outcome;
    if (!is_only_stopped(part_, outcome.error()) || end.passed()) return outcome;
  }
}

void Caller::judge(std::uint64_t id, const Result<Message>& outcome) {
  const Ask ask = ask_of(part_.scenario, id);
  if (outcome) {
    if (ask == Ask::refused || ask == Ask::dropped)
      give_up(fmt::format("call {} was answered", id));
    return check_answer(id, *outcome);
  }
  const Error& error = outcome.error();
  const bool as_told = (ask == Ask::refused && error.code == Code::busy) ||
                       (ask == Ask::dropped && error.code == Code::aborted) ||
                       (ask == Ask::hurried && error.code == Code::timed_out);
  if (!as_told && !is_loss(error)) give_up(fmt::format("call {}", id), error);
}

void Caller::check_answer(std::uint64_t id, const Message& answer) const {
  const std::uint64_t number = read_payload(answer.bytes());
  if (number != answer_to(number_of(part_.sender, id)))
    give_up(fmt::format("call {} was answered with {:#x}, {} bytes", id, number,
                        answer.bytes().size()));
}

// ---- roles ---------------------------------------------------------------------------------

// The victim ends regularly when both clients have had their answers and left; one that died at its
// very end has a successor, too.
void run_calling_survivor(const Part& part) {
  {
    Caller caller(part, Caller::Server::may_die);
    caller.burst(1, kBurst);
  }
  await_victim(part);
  if (part.board.victim_finished) return;
  Caller again(part, Caller::Server::lives);
  again.burst(kSecondBurst, kBurst);
}

void run_victim_client(const Part& part) {
  Caller(part, Caller::Server::lives).burst(1, kBurst);
}

void run_other_client(const Part& part) {
  Caller caller(part, Caller::Server::lives);
  caller.burst(1, kBurst);
  await_victim(part);
  caller.burst(kSecondBurst, kBurst);
}

void run_successor_client(const Part& part) {
  if (part.board.victim_finished) return;
  Caller(part, Caller::Server::lives).burst(kSecondBurst, kBurst);
}

}  // namespace gantry::fault
