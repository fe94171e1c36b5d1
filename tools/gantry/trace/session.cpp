#include "trace/session.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "errors.hpp"
#include "output.hpp"
#include "trace/chrome.hpp"

namespace gantry::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{20};  // at rings, and at processes that end

/// Where `file` is written until it is whole. Errors: it cannot be.
Result<TraceFile> place_for(const std::string& file) {
  constexpr const char* kHint = "name a file that can be written";
  TraceFile in_place{file, file};
  struct stat facts{};
  const bool exists = ::stat(file.c_str(), &facts) == 0;
  if (exists) {
    const int opened = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    if (opened < 0) return tl::unexpected(system_error(file, errno, kHint));
    ::close(opened);
    if (!S_ISREG(facts.st_mode)) return in_place;
  }
  std::error_code unknown;
  const auto target = std::filesystem::canonical(file, unknown);  // a link stays one
  TraceFile place{{}, unknown ? file : target.string()};
  place.written = fmt::format("{}.partial-{}", place.target, ::getpid());
  ::unlink(place.written.c_str());
  const int made = ::open(place.written.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (made < 0 && exists) return in_place;
  if (made < 0) return tl::unexpected(system_error(file, errno, kHint));
  ::close(made);
  ::unlink(place.written.c_str());  // whoever is killed before it is written leaves nothing
  return place;
}

/// Half a trace is none. A device stays.
void remove_file(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode)) ::unlink(path.c_str());
}

std::string summary(const std::string& file, const std::string& option,
                    const ChromeSummary& written) {
  std::string text = fmt::format(
      "{}: {} events of {} tracks in {} processes; {} messages sent, {} "
      "arrivals, {} of them of messages in the trace",
      file, format_count(written.events), format_count(written.tracks),
      format_count(written.processes), format_count(written.sent), format_count(written.received),
      format_count(written.flows));
  if (written.lost != 0)
    text += fmt::format("; {} events lost: give each end room for more ({})",
                        format_count(written.lost), option);
  return text;
}

}  // namespace

Result<std::uint64_t> parse_trace_events(std::string_view text) {
  return parse_number(text, 1, trace::RecordingOptions::kMostEvents);
}

void TraceSession::Background::stop() noexcept {
  {
    const std::lock_guard held(mutex);
    is_over = true;
  }
  over.notify_one();
  if (thread.joinable()) thread.join();
}

void TraceSession::Background::keep_up() {
  std::unique_lock held(mutex);
  while (!over.wait_for(held, kBetweenLooks, [this] { return is_over; })) {
    auto looked = recording.keep_up();
    if (kept) kept = std::move(looked);
  }
}

Result<TraceSession> TraceSession::start(const std::vector<std::string>& directories,
                                         const std::string& file,
                                         const trace::RecordingOptions& options,
                                         std::string option) {
  auto recording = trace::Recording::start(directories, options);
  if (!recording) return tl::unexpected(recording.error());
  auto place = place_for(file);
  if (!place) return tl::unexpected(place.error());
  TraceSession session;
  session.file_ = *std::move(place);
  session.option_ = std::move(option);
  session.background_ = std::make_unique<Background>(std::move(*recording));
  Background* const background = session.background_.get();
  background->thread = std::thread([background] { background->keep_up(); });
  return session;
}

bool TraceSession::has_failed() const {
  const std::lock_guard held(background_->mutex);
  return !background_->kept;
}

Result<void> TraceSession::write(const std::string& channel) {
  background_->stop();
  if (!background_->kept) return background_->kept;
  const auto trace = background_->recording.finish();
  if (!trace) return tl::unexpected(trace.error());
  const auto written = write_chrome(*trace, channel, file_.written);
  if (!written) {
    remove_file(file_.written);
    return tl::unexpected(written.error());
  }
  if (::rename(file_.written.c_str(), file_.target.c_str()) != 0) {
    const int why = errno;
    remove_file(file_.written);
    return tl::unexpected(system_error(file_.target, why, "name a file that can be written"));
  }
  for (const std::string& one : trace->notes) note(one);
  note(summary(file_.target, option_, *written));
  if (written->events == 0 && !channel.empty())
    note(
        fmt::format("trace: nothing of a channel '{}' was recorded: is it its name (gantry ls), "
                    "and did it move?",
                    channel));
  else if (written->events == 0)
    note("trace: nothing moved while it was recorded");
  return {};
}

}  // namespace gantry::cli
