#include "trace/session.hpp"

#include <fmt/format.h>

#include "errors.hpp"
#include "output.hpp"
#include "trace/chrome.hpp"

namespace gantry::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{20};  // at rings, and at processes that end

Error no_channel(const std::string& channel) {
  return {Code::not_found,
          fmt::format("trace: nobody had a channel '{}' while it was recorded", channel),
          "gantry ls shows their names"};
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
  auto output = OutputFile::at(file);
  if (!output) return tl::unexpected(output.error());
  auto recording = trace::Recording::start(directories, options);
  if (!recording) return tl::unexpected(recording.error());
  TraceSession session;
  session.file_ = *std::move(output);
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

Result<void> TraceSession::write(const std::string& channel, bool is_there) {
  background_->stop();
  if (!background_->kept) return background_->kept;
  const auto trace = background_->recording.finish();
  if (!trace) return tl::unexpected(trace.error());
  auto output = OutputWriter::open(file_);
  if (!output) return tl::unexpected(output.error());
  const auto written = write_chrome(*trace, channel, *output);
  if (!written) return tl::unexpected(written.error());
  if (!is_there && written->tracks == 0) return tl::unexpected(no_channel(channel));
  if (auto kept = output->keep(); !kept) return kept;
  for (const std::string& one : trace->notes) note(one);
  note(summary(file_.target(), option_, *written));
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
