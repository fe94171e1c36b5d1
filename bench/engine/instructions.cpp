#include "instructions.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>

#include "../support/sizes.hpp"
#include "movers.hpp"

namespace gantry::bench {

// Counting is on while the calling thread is in one of these two; callgrind knows them by name.
extern "C" {

[[gnu::noinline, gnu::used]] std::uint64_t gantry_bench_counted_submit(Lane* lane, const Move* move,
                                                                       Use use) {
  const auto ticket = lane->submit(*move, use);
  return ticket ? static_cast<std::uint64_t>(*ticket) : 0;
}

[[gnu::noinline, gnu::used]] bool gantry_bench_counted_wait(Lane* lane, std::uint64_t ticket) {
  return lane->wait(Ticket{ticket}, Deadline::never()) == Outcome::done;
}

[[gnu::noinline, gnu::used]] void gantry_bench_counted_memcpy(void* to, const void* from,
                                                              Bytes bytes) {
  std::memcpy(to, from, bytes);
}
}

namespace {

constexpr std::array kSizes = {Bytes{64}, Bytes{4} << 10, Bytes{64} << 10, Bytes{1} << 20,
                               Bytes{64} << 20};
constexpr Bytes kMostBytes = Bytes{128} << 20;  // of all the moves of one run together
constexpr Bytes kMostMoves = 100;

struct Counted {
  std::string engine;
  Bytes bytes = 0;
  Bytes moves = 0;
};

// ---- in the process under callgrind ----------------------------------------------------------

/// One move, its end awaited uncounted where it comes without the caller.
bool move_once(Lane& lane, const Move& move, bool ends_unpolled) {
  const std::uint64_t ticket = gantry_bench_counted_submit(&lane, &move, Use::queued);
  if (ticket == 0) return false;
  if (ends_unpolled) static_cast<void>(lane.wait(Ticket{ticket}, patience(), Waiting::sleep));
  return gantry_bench_counted_wait(&lane, ticket);
}

Result<void> move_all(const Counted& what) {
  Arena arena(std::bit_ceil(what.bytes));
  const Walk walk = Walk::over(1, what.bytes);
  if (what.engine == kMemcpy) {
    for (Bytes i = 0; i < what.moves; ++i)
      gantry_bench_counted_memcpy(arena.destination(), arena.source(), what.bytes);
    return {};
  }
  auto runtime = Runtime::create();
  if (!runtime) return Unexpected(runtime.error());
  auto engine = runtime->engine(what.engine);
  if (!engine) return Unexpected(engine.error());
  auto lane = (*engine)->open_lane();
  if (!lane) return Unexpected(lane.error());
  const Move move = piece_move(arena, walk, 0);
  const bool ends_unpolled = (*engine)->capabilities().moves_itself &&
                             (*lane)->explain(move, Use::queued).engine != CopyEngine::inline_;
  for (Bytes i = 0; i < what.moves; ++i)
    if (!move_once(**lane, move, ends_unpolled))
      return Unexpected({Code::system, "a move failed under callgrind", ""});
  return {};
}

Bytes number_of(const char* text) {
  Bytes number = 0;
  std::from_chars(text, text + std::strlen(text), number);
  return number;
}

// ---- in the process that starts it ----------------------------------------------------------

std::string own_path() {
  std::array<char, 4096> path{};
  const auto length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length <= 0 ? std::string{} : std::string(path.data(), static_cast<std::size_t>(length));
}

/// A program that runs until it ends or is interrupted; then it is killed. Its status, -1: none.
Result<int> run_to_end(std::vector<std::string> words, int interrupt_descriptor) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int failed = ::posix_spawnp(&pid, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0)
    return Unexpected(
        {Code::unsupported, system_error("valgrind", failed).message, "install valgrind"});
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  std::array<pollfd, 2> sources = {{{process.get(), POLLIN, 0}, {interrupt_descriptor, POLLIN, 0}}};
  while (::poll(sources.data(), sources.size(), -1) < 0 && errno == EINTR) {
  }
  const bool is_interrupted = sources[1].revents != 0;
  if (is_interrupted) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (is_interrupted) return Unexpected({Code::interrupted, "interrupted", ""});
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Of the line "totals: N" (or "summary: N") that callgrind ends its file with.
std::optional<double> total_of(const std::string& path) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    for (const std::string_view key : {"totals: ", "summary: "})
      if (line.starts_with(key)) return static_cast<double>(number_of(line.c_str() + key.size()));
  return std::nullopt;
}

/// Instructions a move.
Result<double> count(const Counted& what, const std::string& folder, int interrupt_descriptor) {
  const std::string out = fmt::format("{}/callgrind.out", folder);
  auto status =
      run_to_end({"valgrind", "--tool=callgrind", "--collect-atstart=no",
                  "--toggle-collect=gantry_bench_counted_*",
                  fmt::format("--callgrind-out-file={}", out), own_path(), std::string(kCounted),
                  what.engine, fmt::format("{}", what.bytes), fmt::format("{}", what.moves)},
                 interrupt_descriptor);
  if (!status) return Unexpected(status.error());
  const auto total = *status == 0 ? total_of(out) : std::nullopt;
  if (!total)
    return Unexpected({Code::system, fmt::format("callgrind: exit status {}", *status), ""});
  return *total / static_cast<double>(what.moves);
}

}  // namespace

int run_counted(std::span<char* const> arguments) {
  if (arguments.size() != 3) return 2;
  const Counted what{arguments[0], number_of(arguments[1]), number_of(arguments[2])};
  const auto done = move_all(what);
  if (!done) std::fputs((to_string(done.error()) + "\n").c_str(), stderr);
  return done ? 0 : 1;
}

Result<void> count_instructions(const Settings& settings, Report& report,
                                int interrupt_descriptor) {
  const auto scratch = ScratchDirectory::create();
  if (!scratch) return Unexpected(scratch.error());
  const std::array engines = {kMemcpy, kInlineEngine, kThreadEngine, kAutoEngine};
  const auto sizes = settings.own_sizes(kSizes);
  Progress progress(stderr, "bench engine", engines.size() * sizes.size());
  for (const Bytes bytes : sizes) {
    const std::string name = fmt::format("instructions/{}", format_size(bytes));
    for (const std::string_view engine : engines) {
      progress.step(name);
      const Counted what{std::string(engine), bytes,
                         std::clamp(kMostBytes / bytes, Bytes{2}, kMostMoves)};
      const std::string subject =
          engine == kMemcpy ? std::string(kMemcpy) : fmt::format("gantry/{}", engine);
      auto counted = count(what, scratch->path(), interrupt_descriptor);
      if (counted) {
        std::array<double, 1> figures = {*counted};
        report.rows.push_back({name, subject, bytes, "instructions", "1", summarize(figures)});
      } else if (counted.error().code == Code::interrupted) {
        return Unexpected(counted.error());
      } else {
        report.skipped.push_back(
            {fmt::format("{} in {}", subject, name), to_string(counted.error())});
      }
    }
  }
  return {};
}

}  // namespace gantry::bench
