#include "run/process/progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "output.hpp"

namespace gantry::run {
namespace {

/// A mean that is `otherwise` of nothing.
struct Mean {
  double sum = 0;
  double count = 0;
  void add(double value) noexcept {
    sum += value;
    count += 1;
  }
  [[nodiscard]] double value(double otherwise) const noexcept {
    return count > 0 ? sum / count : otherwise;
  }
};

double difference(std::uint64_t now, std::uint64_t before) noexcept {
  return now > before ? static_cast<double>(now - before) : 0;
}

std::string format_elapsed(std::chrono::nanoseconds elapsed) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(elapsed);
  return whole < std::chrono::minutes(1) ? fmt::format("{} s", whole.count())
                                         : cli::format_time(whole);
}

}  // namespace

Progress::Progress(const Plan& plan) : plan_(&plan), before_(read()) {}

std::vector<Progress::Snapshot> Progress::read() const {
  std::vector<Snapshot> result;
  for (const Link& link : plan_->links())
    result.push_back({link.sender.report(), link.receiver.report()});
  return result;
}

std::string Progress::line(std::chrono::nanoseconds elapsed, const std::vector<bool>& living) {
  const std::vector<Snapshot> now = read();
  const std::vector<Channel>& channels = plan_->pipeline().channels;
  std::vector<std::uint64_t> messages(channels.size());
  std::uint64_t bytes = 0;
  double fresh_bytes = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    messages[plan_->links()[i].channel] += now[i].receiver.messages;
    bytes += now[i].receiver.bytes;
    fresh_bytes += difference(now[i].receiver.bytes, before_[i].receiver.bytes);
  }
  const double interval_ns = std::max(1.0, static_cast<double>((elapsed - before_at_).count()));
  std::string text = format_elapsed(elapsed) + ": ";
  for (std::size_t i = 0; i < channels.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", channels[i].name,
                        cli::format_count(messages[i]));
  text += fmt::format("{}{} at {}", channels.empty() ? "" : "; ", cli::format_bytes(bytes),
                      cli::format_rate(fresh_bytes / interval_ns * 1e9));
  if (const std::string name = slowest(now, interval_ns, living); !name.empty())
    text += "; slowest stage: " + name;
  before_ = now;
  before_at_ = elapsed;
  return text;
}

std::string Progress::slowest(const std::vector<Snapshot>& now, double interval_ns,
                              const std::vector<bool>& living) const {
  const std::vector<Stage>& stages = plan_->pipeline().stages;
  std::string worst;
  double worst_load = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (!living[stage]) continue;
    const double stage_load = load(stage, now, interval_ns);
    if (worst.empty() || stage_load > worst_load) {
      worst = stages[stage].name;
      worst_load = stage_load;
    }
  }
  return worst;
}

/// The slowest stage is the one with a full input and an empty output that waits least: it holds up
/// all before it, and all behind it starve. Each of the three counts from 0 to 1. A source's input
/// is always full, a sink's output always empty. A pipe holds no whole message, so there waits
/// decide.
double Progress::load(std::size_t stage, const std::vector<Snapshot>& now,
                      double interval_ns) const {
  const bool has_queues = plan_->transport() != Transport::pipe;
  Mean input;
  Mean output;
  double waited_ns = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const Link& link = plan_->links()[i];
    const double slots = plan_->pipeline().channels[link.channel].slots;
    const double queued = difference(now[i].sender.messages, now[i].receiver.messages) / slots;
    if (link.to.stage == stage) {
      input.add(std::min(1.0, queued));
      waited_ns += difference(now[i].receiver.wait_ns, before_[i].receiver.wait_ns);
    }
    if (link.from.stage == stage) {
      output.add(std::min(1.0, queued));
      waited_ns += difference(now[i].sender.wait_ns, before_[i].sender.wait_ns);
    }
  }
  const double replicas = plan_->pipeline().stages[stage].replicas;
  const double busy = 1 - std::min(1.0, waited_ns / (interval_ns * replicas));
  return has_queues ? busy + input.value(1) - output.value(0) : busy;
}

}  // namespace gantry::run
