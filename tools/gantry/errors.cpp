#include "errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <system_error>

#include "tools/command_line/printable.hpp"

namespace gantry::cli {

void note(std::string_view text) {
  // A name or a path may hold anything; the promise is one line, and nothing for the terminal.
  const std::string line = "gantry: " + printable(text) + "\n";
  std::fputs(line.c_str(), stderr);  // throws nothing when standard error is closed
}

void note_with_time(std::string_view text) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 32> when{};
  std::strftime(when.data(), when.size(), "%F %T", &local);
  note(fmt::format("{}: {}", when.data(), text));
}

namespace {

struct Wording {
  std::string_view ours;  // as the library's hints say it to who writes a program
  std::string_view hint;  // what a person at a command line can do
};
constexpr std::array<Wording, 12> kWordings{
    {{"ProducerOptions::consumers",
      "start its producer with room for more: gantry put --consumers NUMBER"},
     {"ConsumerOptions::when_slow", "join with another policy: gantry get --when-slow drop-oldest"},
     {"a Consumer for a producer",
      "gantry get reads the channel of a producer; gantry ls shows what has the name"},
     {"EndOptions::access", "run both ends as one user, or name the other user at each: --users"},
     {"InboxOptions::producers", "the program that receives allows no more"},
     {"raise its ReceiveLimits",
      "raise the reader's limits (ulimit -v, ulimit -n), or send smaller messages"},
     {"ReceiveLimits::slabs",
      "raise the limit of open files (ulimit -n), or have the sender use fewer slots"},
     {"ReceiveLimits::mapped_bytes",
      "raise the limit of address space (ulimit -v), or have the sender send smaller messages"},
     {"ReceiveLimits::gathered_bytes", "have the sender send smaller messages"},
     {"Consumer::receive_early", "have the sender send smaller messages"},
     {"PoolOptions::slab_bytes", "raise the limit of open files (ulimit -n)"},
     {"or raise PoolOptions::budget_bytes",
      "lower --message-size; in a pipeline the channel's budget counts"}}};

}  // namespace

Error in_words_of_the_command_line(Error error) {
  const auto found = std::ranges::find_if(kWordings, [&](const Wording& one) {
    return error.hint.find(one.ours) != std::string::npos;
  });
  if (found != kWordings.end()) error.hint = found->hint;
  return error;
}

int fail(const Error& error) {
  if (error.code == Code::interrupted) return kExitInterrupted;
  if (error.code == Code::closed) return kExitReaderLeft;
  Error said = in_words_of_the_command_line(error);
  // Whoever ran out of memory had none for a hint.
  if (said.code == Code::out_of_memory && said.hint.empty())
    said.hint = "free memory, or raise the limit of address space (ulimit -v)";
  note(to_string(said));
  return kExitFailure;
}

Error system_error(std::string what, int error_number, std::string hint) {
  const std::string why = std::generic_category().message(error_number);
  return {Code::system, fmt::format("{}: {}", what, why), std::move(hint)};
}

}  // namespace gantry::cli
