#include "run/process/stage_process.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "run/process/processes.hpp"

namespace gantry::run {
namespace {

constexpr std::size_t kLastLines = 20;

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

void add(const rusage& raw, Usage& to) {
  constexpr Bytes kKibibyte = 1024;  // ru_maxrss counts in these
  to.user_s += seconds(raw.ru_utime);
  to.system_s += seconds(raw.ru_stime);
  to.max_rss_bytes = std::max(to.max_rss_bytes, static_cast<Bytes>(raw.ru_maxrss) * kKibibyte);
}

}  // namespace

void StageProcess::signal(int number) const noexcept {
  if (!is_elsewhere()) ::kill(-child_.pid, number);
}

void StageProcess::note_end_elsewhere(Exit exit, const Usage& usage) noexcept {
  exit_ = exit;
  usage_ = usage;
  running_ = false;
}

bool StageProcess::note_end() {
  siginfo_t info{};
  int result = 0;
  do {
    result =
        ::waitid(P_PIDFD, static_cast<id_t>(child_.exit.get()), &info, WEXITED | WNOWAIT | WNOHANG);
  } while (result != 0 && errno == EINTR);
  if (result != 0 || info.si_pid == 0) return false;
  (info.si_code == CLD_EXITED ? exit_.status : exit_.signal) = info.si_status;
  running_ = false;
  ended_ = Clock::now();
  return true;
}

void StageProcess::take(Stream stream, std::string_view line, Console& console) {
  console.stage_line(id_, label_, stream == Stream::errors, line);
  if (stream == Stream::output) return;
  last_errors_.emplace_back(line);
  if (last_errors_.size() > kLastLines) last_errors_.pop_front();
}

StageProcess::Read StageProcess::forward(Stream stream, Console& console) {
  const bool is_output = stream == Stream::output;
  const Descriptor& descriptor = is_output ? child_.output : child_.errors;
  LineCutter& lines = is_output ? output_lines_ : error_lines_;
  const auto on_line = [&](std::string_view line) { take(stream, line, console); };
  std::array<char, 16 << 10> text;  // NOLINT: filled by read
  const ssize_t length = ::read(descriptor.get(), text.data(), text.size());
  if (length > 0) {
    lines.add({text.data(), static_cast<std::size_t>(length)}, on_line);
    return Read::some;
  }
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return Read::nothing;
  lines.finish(on_line);
  return Read::ended;
}

void StageProcess::forward_all(Console& console) {
  if (is_elsewhere()) return;
  // Bounded: a pipe holds no more at a time, and its writer may fill it for ever.
  constexpr int kReads = 64;
  for (const Stream stream : {Stream::output, Stream::errors})
    for (int i = 0; i < kReads && forward(stream, console) == Read::some; ++i) {
    }
}

Usage StageProcess::reap(Guard& guard, Deadline until) {
  if (is_elsewhere()) return usage_;
  // The unreaped leader keeps the group's number from meaning anybody else.
  ::kill(-child_.pid, SIGKILL);
  guard.remove(child_.pid);
  Usage usage;
  rusage raw{};
  if (reap_child(child_.pid, until, &raw) > 0) add(raw, usage);
  // Nobody waited for these, so no other process is charged with them.
  while (reap_child(-child_.pid, until, &raw) > 0) add(raw, usage);
  if (running_) ended_ = Clock::now();
  running_ = false;
  usage.wall_s = std::chrono::duration<double>(ended_ - started_).count();
  return usage;
}

}  // namespace gantry::run
