#include "fault/answerer.hpp"

#include <sched.h>

#include "core/base/clock.hpp"
#include "fault/asking.hpp"
#include "fault/awaiting.hpp"
#include "fault/census.hpp"

namespace gantry::fault {
namespace {

constexpr std::uint64_t kLast = kSecondBurst + kBurst - 1;
constexpr std::uint64_t kHeld = 4;  // of the victim's: answered when its next one comes

}  // namespace

Answerer::Answerer(const Part& part, std::string_view name) : part_(part) {
  const ClientOptions as_its_clients = calling_options(part);
  ServerOptions options;
  options.channel = {as_its_clients};
  options.replies = as_its_clients;
  options.clients = 8;
  auto opened = Server::open(name, options, part.engine);
  if (!opened) give_up("opening a server", opened.error());
  server_.emplace(std::move(*opened));
}

int Answerer::descriptor() {
  const auto descriptor = server_->event_descriptor();
  if (!descriptor) give_up("a server's descriptor", descriptor.error());
  return *descriptor;
}

void Answerer::serve_next() {
  std::optional<Result<Request>> request;
  if (part_.scenario.awaits) {
    Awaiting awaiting(part_);
    awaiting.loop().spawn(await_next(*server_, awaiting.loop(), request));
    awaiting.run();
  } else {
    request = patiently(part_, [&](Deadline deadline) { return server_->next(deadline); });
  }
  if (!request || !*request) give_up("waiting for a request", request->error());
  serve(std::move(**request));
}

bool Answerer::serve_one() {
  auto request = server_->next(Deadline::now());
  if (request) serve(std::move(*request));
  if (!request && request.error().code != Code::timed_out)
    give_up("looking for a request", request.error());
  return request.has_value();
}

bool Answerer::is_held_back(std::uint64_t sender, std::uint64_t id) const {
  return part_.victim_pid != 0 && sender == kVictimSender && id == kHeld;
}

void Answerer::serve(Request request) {
  const std::uint64_t number = read_payload(request.message().bytes());
  if (number == 0)
    give_up(fmt::format("a request of {} bytes is not whole", request.message().bytes().size()));
  const std::uint64_t sender = sender_of(number);
  if (!asked_.insert(number).second) give_up(fmt::format("request {:#x} came twice", number));
  note_received(part_, sender, id_of(number));
  if (is_held_back(sender, id_of(number))) {
    held_ = std::move(request);
    return;
  }
  if (held_ && sender == kVictimSender) {
    answer(*held_);
    held_.reset();
  }
  answer(request);
}

void Answerer::answer(Request& request) {
  const std::uint64_t number = read_payload(request.message().bytes());
  const Ask ask = ask_of(part_.scenario, id_of(number));
  answered_[sender_of(number)] = id_of(number);
  if (ask == Ask::dropped) return;
  if (ask == Ask::cancelled && request.is_cancelled()) return;
  const auto said = ask == Ask::refused
                        ? request.refuse({Code::busy, "as was agreed", ""})
                        : patiently(part_, [&](Deadline) { return reply(request, number); });
  const bool may_be_gone =
      part_.victim_pid != 0 && sender_of(number) == kVictimSender && !part_.may_stop;
  if (said || (may_be_gone && said.error().code == Code::peer_gone)) return;
  give_up(fmt::format("answering {:#x}", number), said.error());
}

Result<void> Answerer::reply(Request& request, std::uint64_t number) {
  const Bytes size = payload_bytes(part_.scenario, id_of(number) + 1);
  const Deadline deadline = limit(part_);
  if (ask_of(part_.scenario, id_of(number)) == Ask::loaned) {
    GANTRY_ASSIGN(Loan loan, request.loan(size, deadline));
    fill_payload(loan.bytes(), answer_to(number));
    return request.reply(std::move(loan), {.deadline = deadline});
  }
  std::vector<std::byte> bytes(size);
  fill_payload(bytes, answer_to(number));
  return request.reply(bytes, {.deadline = deadline});
}

void Answerer::drop_held() {
  if (!held_) return;
  const std::uint64_t asked = monotonic_ns();
  const Deadline end = Deadline::after(std::chrono::seconds(20));
  while (!held_->is_cancelled()) {
    if (end.passed()) give_up("the victim's request is not cancelled");
    ::sched_yield();
  }
  note_gone(part_, asked);
  if (id_of(read_payload(held_->message().bytes())) != kHeld)
    give_up("what is held of the victim changed");
  const auto replied = held_->reply(ConstByteSpan());
  if (replied || replied.error().code != Code::peer_gone) give_up("a dead client was answered");
  held_.reset();
}

// ---- roles ---------------------------------------------------------------------------------

namespace {

// Two clients, each to its last request; then until they have left.
void serve_two(Answerer& answerer, std::uint64_t last) {
  while (answerer.answered(kOtherSender) < last || answerer.answered(kThirdSender) < last)
    answerer.serve_next();
  while (!answerer.is_empty())
    if (!answerer.serve_one() && !answerer.is_empty()) await_readable(answerer.descriptor());
}

}  // namespace

void run_victim_server(const Part& part) {
  Answerer answerer(part);
  serve_two(answerer, kBurst);
}

void run_successor_server(const Part& part) {
  if (part.board.victim_finished) return;
  Answerer answerer(part);
  serve_two(answerer, kLast);
}

void run_surviving_server(const Part& part) {
  const Census idle = [&part] {
    const Answerer nobody_comes(part, "idle");
    return take_census(part.directory);
  }();
  Answerer answerer(part);
  const auto is_complete = [&] {
    return answerer.answered(kOtherSender) == kLast &&
           (part.board.victim_finished || answerer.answered(kThirdSender) == kLast) &&
           answerer.is_empty();
  };
  for (bool has_ended = false; !is_complete();) {
    if (has_ended) answerer.drop_held();  // also one that is handed out only now
    if (answerer.serve_one() || is_complete()) continue;
    if (has_ended)
      await_readable(answerer.descriptor());
    else
      has_ended = await_victim(part, answerer.descriptor());
  }
  answerer.drop_held();
  check_census(part.directory, idle, [&answerer] { answerer.serve_one(); });
}

}  // namespace gantry::fault
