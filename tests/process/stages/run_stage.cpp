// A stage of the pipelines in the run_*_test files: run_stage MODE [arguments].
//   source COUNT BYTES   sends COUNT messages (0: for ever) into "numbers"
//   relay                "numbers" to "results", adding 1 to every payload byte
//   desert               relays 64; replica 1 then gives its output up; all end when told to
//   sink FILE            checks every byte of "results"; then writes how many came, and their sum
//   forget               sends one message into "numbers" and ends without closing
//   huge                 asks "numbers" for a message larger than any machine's memory
//   hold [NAME...]       opens the inputs NAME, says "holding", and stays until SIGTERM
//   stubborn [NAME...]   the same, and ignores SIGTERM
//   unkilling PROGRAM... becomes PROGRAM, for which SIGKILL does nothing to anybody
//   family [NAME...]     the same, with one child in its group and one in a session of its own
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <gantry/stage.hpp>
#include <span>
#include <vector>

#include "core/base/test_refusals.hpp"

namespace {

using namespace gantry;
using Words = std::vector<std::string>;

constexpr int kWrongPayload = 9;
constexpr int kNoFilters = 77;

int fail(const Error& error) {
  std::fprintf(stderr, "gantry: %s\n", to_string(error).c_str());
  return 1;
}

void say(const char* text) {
  std::fprintf(stderr, "%s\n", text);
}

std::uint64_t number(const std::string& text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// ---- a message: its number, then bytes that follow from it -------------------------------------

std::byte byte_of(std::uint64_t number, std::size_t at) {
  return static_cast<std::byte>((number * 31 + at) & 0xff);
}

void fill(std::uint64_t number, ByteSpan message) {
  ::memcpy(message.data(), &number, sizeof number);
  for (std::size_t at = sizeof number; at < message.size(); ++at) message[at] = byte_of(number, at);
}

std::uint64_t number_of(ConstByteSpan message) {
  std::uint64_t number = 0;
  ::memcpy(&number, message.data(), std::min(sizeof number, message.size()));
  return number;
}

void add_one(ConstByteSpan from, ByteSpan to) {
  ::memcpy(to.data(), from.data(), from.size());
  for (std::byte& byte : to.subspan(std::min(sizeof(std::uint64_t), to.size())))
    byte = static_cast<std::byte>(std::to_integer<unsigned>(byte) + 1);
}

bool is_relayed(ConstByteSpan message) {
  const std::uint64_t number = number_of(message);
  for (std::size_t at = sizeof number; at < message.size(); ++at)
    if (std::to_integer<unsigned>(message[at]) !=
        ((std::to_integer<unsigned>(byte_of(number, at)) + 1) & 0xff))
      return false;
  return message.size() >= sizeof number;
}

// ---- the three-stage pipeline ------------------------------------------------------------------

Result<void> send_numbers(StageOutput& output, std::uint64_t count, Bytes bytes) {
  for (std::uint64_t i = 1; count == 0 || i <= count; ++i) {
    Result<Loan> loan = output.loan(bytes);
    if (!loan) return tl::unexpected(loan.error());
    fill(i, loan->bytes());
    if (auto sent = output.publish(std::move(*loan)); !sent) return sent;
  }
  return output.close();
}

int source(const Words& words) {
  Result<StageOutput> output = stage_output("numbers");
  if (!output) return fail(output.error());
  const Result<void> sent = send_numbers(*output, number(words.at(0)), number(words.at(1)));
  return sent ? 0 : fail(sent.error());
}

/// `closed` after the last one.
Result<void> relay_one(StageInput& input, StageOutput& output) {
  Result<Message> message = input.receive();
  if (!message) return tl::unexpected(message.error());
  std::vector<std::byte> result(message->bytes().size());
  add_one(message->bytes(), result);
  message->release();
  return output.send(result);
}

int relay(const Words&) {
  Result<StageInput> input = stage_input("numbers");
  if (!input) return fail(input.error());
  Result<StageOutput> output = stage_output("results");
  if (!output) return fail(output.error());
  Result<void> relayed;
  while (relayed) relayed = relay_one(*input, *output);
  if (relayed.error().code != Code::closed) return fail(relayed.error());
  const Result<void> closed = output->close();
  return closed ? 0 : fail(closed.error());
}

/// The deserter's output is gone long before its process is: its reader ends first.
int desert(const Words&) {
  const bool is_deserter = std::string_view(::getenv("GANTRY_REPLICA")) == "1";
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  if (is_deserter) ::pthread_sigmask(SIG_BLOCK, &term, nullptr);
  Result<StageInput> input = stage_input("numbers");
  if (!input) return fail(input.error());
  {
    Result<StageOutput> output = stage_output("results");
    if (!output) return fail(output.error());
    constexpr int kMoreThanSlots = 64;  // so the reader has joined
    for (int i = 0; i < kMoreThanSlots; ++i)
      if (const auto relayed = relay_one(*input, *output); !relayed) return fail(relayed.error());
    while (!is_deserter) ::pause();  // it dies of the order to stop, without having seen anything
  }
  int number = 0;
  ::sigwait(&term, &number);
  constexpr int kDeserted = 7;
  return kDeserted;
}

int sink(const Words& words) {
  Result<StageInput> input = stage_input("results");
  if (!input) return fail(input.error());
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  while (true) {
    const Result<Message> message = input->receive();
    if (!message && message.error().code == Code::closed) break;
    if (!message) return fail(message.error());
    if (!is_relayed(message->bytes())) return kWrongPayload;
    sum += number_of(message->bytes());
    if (++count == 4) say("flowing");
  }
  std::FILE* file = std::fopen(words.at(0).c_str(), "w");
  if (file == nullptr) return 1;
  std::fprintf(file, "%llu %llu", static_cast<unsigned long long>(count),
               static_cast<unsigned long long>(sum));
  return std::fclose(file) == 0 ? 0 : 1;
}

int forget(const Words&) {
  Result<StageOutput> output = stage_output("numbers");
  if (!output) return fail(output.error());
  std::vector<std::byte> message(1000);
  const Result<void> sent = output->send(message);
  return sent ? 0 : fail(sent.error());
}

int huge(const Words&) {
  Result<StageOutput> output = stage_output("numbers");
  if (!output) return fail(output.error());
  const Result<Loan> loan = output->loan(Bytes{1} << 50);
  return loan ? 0 : fail(loan.error());
}

// ---- stages that do nothing, in several ways ---------------------------------------------------

int hold(const Words& words) {
  std::vector<StageInput> inputs;
  for (const std::string& name : words) {
    Result<StageInput> input = stage_input(name);
    if (!input) return fail(input.error());
    inputs.push_back(std::move(*input));
  }
  say("holding");
  while (true) ::pause();
}

int stubborn(const Words& words) {
  ::signal(SIGTERM, SIG_IGN);
  return hold(words);
}

/// Returns when the child is what it is to be.
void leave_child(bool in_own_session) {
  int ready[2];
  if (::pipe(ready) != 0) ::abort();
  if (::fork() == 0) {
    if (in_own_session) ::setsid();
    ::signal(SIGTERM, SIG_IGN);
    ::close(ready[0]);
    ::close(ready[1]);
    while (true) ::pause();
  }
  ::close(ready[1]);
  char none = 0;
  while (::read(ready[0], &none, 1) > 0) continue;
  ::close(ready[0]);
}

int family(const Words& words) {
  leave_child(false);
  leave_child(true);
  return words.empty() ? 0 : hold(words);
}

/// As if all processes hung in the kernel, or were another user's.
int unkilling(const Words& words) {
  if (!test::refuse_calls({{SYS_kill, 0, true, 1, SIGKILL}})) return kNoFilters;
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  return 1;
}

struct Role {
  const char* name;
  int (*run)(const Words&);
  std::size_t words;  // at least
};
constexpr Role kRoles[] = {
    {"source", source, 2},     {"relay", relay, 0},        {"sink", sink, 1}, {"forget", forget, 0},
    {"desert", desert, 0},     {"huge", huge, 0},          {"hold", hold, 0}, {"family", family, 0},
    {"stubborn", stubborn, 0}, {"unkilling", unkilling, 1}};

}  // namespace

int main(int argc, char** argv) {
  const Words words(argv + std::min(argc, 2), argv + argc);
  for (const Role& role : kRoles)
    if (argc > 1 && role.name == std::string_view(argv[1]) && words.size() >= role.words)
      return role.run(words);
  say("run_stage: wrong usage");
  return 2;
}
