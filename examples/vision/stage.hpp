#pragma once  // stage.hpp: the frame of every stage program: arguments, errors, exit status.

#include <exception>
#include <gantry/stage.hpp>
#include <optional>
#include <span>

namespace vision {

struct Program {
  const char* name;
  const char* arguments;  ///< As usage shows them.
  const char* summary;    ///< What it does, with its ends.
  std::size_t least;      ///< Least arguments,
  std::size_t most;       ///< and most.
};

using Arguments = std::span<const char* const>;

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kMisused = 2;

/// A decimal number from `least` to `most`; `what` names it in the error.
[[nodiscard]] gantry::Result<unsigned> parse_number(std::string_view text, std::string_view what,
                                                    unsigned least, unsigned most);

/// Prints "NAME: what: why; hint" as one line on standard error (a compiler's log as it is), and
/// returns `status`.
int complain(const Program& program, const gantry::Error& error, int status);

/// Answers --help and checks the count of arguments. Returns an exit status, or nothing to go on.
[[nodiscard]] std::optional<int> check_usage(const Program& program, Arguments arguments);

/// Silences what OpenCV and FFmpeg print by themselves, and keeps OpenCV to this thread: stages
/// run side by side, one core each.
void tame_opencv();

template <class T>
[[nodiscard]] auto failed(const gantry::Result<T>& result) {
  return tl::unexpected(result.error());
}

/// Runs `take(Message&) -> Result<void>` on every message until the sender ends the stream.
template <class Take>
[[nodiscard]] gantry::Result<void> for_each_message(gantry::StageInput& input, Take take) {
  for (;;) {
    auto message = input.receive();
    if (!message && message.error().code == gantry::Code::closed) return {};
    if (!message) return failed(message);
    if (auto taken = take(*message); !taken) return taken;
  }
}

/// main() of a stage: `parse(Arguments) -> Result<Options>`, then `run(Options) -> Result<void>`.
template <class Parse, class Run>
[[nodiscard]] int stage_main(const Program& program, int argc, const char* const* argv, Parse parse,
                             Run run) {
  const Arguments arguments(argv + 1, argc > 0 ? static_cast<std::size_t>(argc - 1) : 0);
  if (const auto status = check_usage(program, arguments)) return *status;
  try {
    const auto options = parse(arguments);
    if (!options) return complain(program, options.error(), kMisused);
    tame_opencv();
    const gantry::Result<void> done = run(*options);
    return done ? kDone : complain(program, done.error(), kFailed);
  } catch (const std::exception& thrown) {  // OpenCV's, or memory ran out
    return complain(program, {gantry::Code::system, thrown.what(), ""}, kFailed);
  }
}

}  // namespace vision
