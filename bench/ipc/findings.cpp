#include "findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../support/program/sizes.hpp"
#include "../support/report/findings.hpp"
#include "cases.hpp"
#include "instructions.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kKiB = Bytes{1} << 10;
constexpr Bytes kMiB = Bytes{1} << 20;
constexpr std::string_view kStreamed = "gantry/pipelined-streamed";
constexpr std::string_view kWhole = "gantry/pipelined-whole";
/// What sends a private buffer, as peers do; a loan or a move finds its message in place.
constexpr std::array<std::string_view, 4> kCopyModes = {kSyncName, "gantry/async", kWhole,
                                                        kStreamed};

bool is_copy_mode(std::string_view subject) {
  return std::find(kCopyModes.begin(), kCopyModes.end(), subject) != kCopyModes.end();
}

/// Another system that sends a private buffer.
bool is_peer(std::string_view subject) {
  return !subject.starts_with("gantry/") && !subject.starts_with("limit/") &&
         !subject.starts_with(kCpuSyncName) && !subject.ends_with("/loan");
}

/// Another system's message that its reader finds in place, as of a loan of ours.
bool is_peer_loan(std::string_view subject) {
  return subject.ends_with("/loan") && !subject.starts_with("gantry/");
}

/// Payload that is copied chunk by chunk into shared places, and nothing else.
bool is_chunk_probe(std::string_view subject) {
  return subject.starts_with("limit/chunks-into-");
}

/// The smallest of a case's rows of that metric among such subjects; null when there is none.
const Row* best(const Report& report, const std::string& case_name, std::string_view metric,
                bool (*is_of)(std::string_view)) {
  const Row* found = nullptr;
  for (const Row& row : report.rows)
    if (row.case_name == case_name && row.metric == metric && is_of(row.subject) &&
        (found == nullptr || row.summary.value < found->summary.value))
      found = &row;
  return found;
}

const Row* best_copy(const Report& report, const std::string& case_name,
                     std::string_view metric = kLatencyP50) {
  return best(report, case_name, metric, is_copy_mode);
}

/// How many times as long `theirs` takes as `ours`.
void add_lead(Ratios& ratios, const std::string& case_name, const Row* theirs, const Row* ours,
              const Bar& bar) {
  if (theirs == nullptr || ours == nullptr) return;
  ratios.of_rows(fmt::format("{}: time of {} / {}", case_name, theirs->subject, ours->subject),
                 theirs, ours, bar);
}

void add_smallest(Ratios& ratios, const Report& report) {
  const std::string name = format_size(64);
  const Row* const ours = best_copy(report, name);
  if (ours == nullptr) return;
  ratios.of_rows(fmt::format("{}: time of {} / {}", name, ours->subject, kPingPongName), ours,
                 report.find(name, kPingPongName, kLatencyP50), Bar::at_most(1.5));
}

/// What the machine would let pass: two lines there and one back; a payload that lies there already
/// and is only read.
void add_limits(Ratios& ratios, const Report& report) {
  const std::string smallest = format_size(64);
  ratios.in_case(smallest, kTwoLinesName, kPingPongName, Bar::none());
  if (const Row* const ours = best_copy(report, smallest))
    ratios.of_rows(fmt::format("{}: {} / {}", smallest, ours->subject, kTwoLinesName), ours,
                   report.find(smallest, kTwoLinesName, kLatencyP50), Bar::at_most(1.5));
  for (const auto& [bytes, most] : {std::pair(4 * kKiB, 1.4), {64 * kKiB, 1.25}, {kMiB, 1.25}}) {
    const std::string name = format_size(bytes);
    const Row* const ours = best_copy(report, name);
    const Row* const limit = best(report, name, kLatencyP50, is_chunk_probe);
    if (ours == nullptr || limit == nullptr) continue;
    ratios.of_rows(fmt::format("{}: {} / {}", name, ours->subject, limit->subject), ours, limit,
                   Bar::at_most(most));
  }
  for (const Bytes bytes : {64 * kKiB, kMiB, 16 * kMiB, 128 * kMiB}) {
    const std::string name = format_size(bytes);
    add_lead(ratios, name, best(report, name, kLatencyP50, is_peer_loan),
             report.find(name, kLoanName, kLatencyP50), Bar::none());
  }
}

/// What it costs to be given a ticket.
void add_async(Ratios& ratios) {
  for (const Bytes bytes : {Bytes{64}, 4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 128 * kMiB})
    ratios.in_case(format_size(bytes), "gantry/async", kSyncName,
                   Bar::at_most(bytes <= 64 * kKiB ? 1.2 : 1.05));
}

void add_peers(Ratios& ratios, const Report& report) {
  const auto add = [&](Bytes bytes, const Row* ours, double least) {
    const std::string name = format_size(bytes);
    add_lead(ratios, name, best(report, name, kLatencyP50, is_peer), ours, Bar::at_least(least));
  };
  const auto copy_at = [&](Bytes bytes) { return best_copy(report, format_size(bytes)); };
  const auto row_at = [&](Bytes bytes, std::string_view subject) {
    return report.find(format_size(bytes), subject, kLatencyP50);
  };
  for (const Bytes bytes : {Bytes{64}, 4 * kKiB}) add(bytes, copy_at(bytes), 1);
  for (const Bytes bytes : {64 * kKiB, kMiB}) add(bytes, copy_at(bytes), 1.4);
  for (const Bytes bytes : {16 * kMiB, 128 * kMiB}) {
    add(bytes, row_at(bytes, kStreamed), 2.2);
    add(bytes, row_at(bytes, kWhole), 1.3);
  }
}

/// Against the CPU baselines, for requests of a common shape.
void add_baselines(Ratios& ratios, const Report& report) {
  const std::string name = kImageBatch;
  const std::string queued = in_flight_name(name);
  const auto baseline = [&](const std::string& of, std::string_view subject,
                            std::string_view metric) { return report.find(of, subject, metric); };
  add_lead(ratios, queued, baseline(queued, kCpuSyncName, kMessageTime),
           best_copy(report, queued, kMessageTime), Bar::at_least(2.1));
  add_lead(ratios, name, baseline(name, kCpuSyncFreshName, kLatencyP50), best_copy(report, name),
           Bar::at_least(5));
  if (const Row* const ours = best_copy(report, name))
    ratios.of_rows(fmt::format("{}: time of {} / {}", name, ours->subject, kCpuSyncName), ours,
                   baseline(name, kCpuSyncName, kLatencyP50), Bar::at_most(0.28));
  const std::string counted = instructions_name(name);
  if (const Row* const ours = best_copy(report, counted, kInstructions))
    ratios.of_rows(fmt::format("{}: {} / {}", counted, ours->subject, kCpuSyncName), ours,
                   baseline(counted, kCpuSyncName, kInstructions), Bar::at_most(0.78));
}

/// How far the slowest of a hundred trips is from the median, with and without a stream beside.
void add_beside(Ratios& ratios, const Report& report) {
  for (const Row& row : report.rows) {
    if (row.subject == kStreamBesideName)
      ratios.figure(fmt::format("{}: GB/s of the stream beside", row.case_name), row.summary.value,
                    Bar::none());
    if (row.metric != kLatencyP99 || !row.case_name.starts_with("beside-")) continue;
    const bool is_barred = row.subject == kSyncName && row.bytes <= 64 &&
                           row.case_name.starts_with(beside_name(Beside::stream, false, ""));
    ratios.of_rows(fmt::format("{}: p99 / median of {}", row.case_name, row.subject), &row,
                   report.find(row.case_name, row.subject, kLatencyP50),
                   is_barred ? Bar::at_most(3) : Bar::none());
  }
}

/// What the sender pays for more readers: CPU time, in which the wake-ups are, as there may be
/// fewer CPUs than processes; or what it executes itself.
void add_fan_out(Ratios& ratios, const Report& report) {
  const std::string timed = fan_out_name(4, "");
  const std::string counted = instructions_name(timed);
  for (const Row& row : report.rows) {
    const bool is_time = row.metric == kSendCpuP50 && row.case_name.starts_with(timed);
    const bool is_count = row.metric == kInstructions && row.case_name.starts_with(counted);
    if (!is_time && !is_count) continue;
    const std::string of = row.case_name.substr((is_time ? timed : counted).size());
    const std::string one = fan_out_name(1, of);
    // The record of a small message is the message: each reader gets a copy.
    const double most = is_count && row.bytes <= 64 ? 1.5 : 1.1;
    ratios.of_rows(fmt::format("{}: {} of send by {} to 4 readers / to 1", of,
                               is_time ? "CPU time" : "instructions", row.subject),
                   &row,
                   report.find(is_time ? one : instructions_name(one), row.subject, row.metric),
                   is_copy_mode(row.subject) ? Bar::at_most(most) : Bar::none());
  }
}

/// How long send_async() keeps its caller, in microseconds.
void add_async_calls(Ratios& ratios, const Report& report) {
  for (const Row& row : report.rows) {
    const std::string prefix = fan_out_name(1, "");
    if (!row.case_name.starts_with(prefix) || row.subject != "gantry/async" || row.bytes < kMiB)
      continue;
    const bool median = row.metric == kSendP50;
    if (!median && row.metric != kSendP99) continue;
    ratios.figure(fmt::format("{}: send by gantry/async, us at {} %",
                              row.case_name.substr(prefix.size()), median ? 50 : 99),
                  row.summary.value / 1e3, Bar::at_most(median ? 5 : 25));
  }
}

/// What is handed over without a copy takes no longer for being longer.
void add_hand_off(Ratios& ratios, const Report& report) {
  const std::string prefix = hand_off_name("");
  for (const std::string_view subject : {kLoanName, "gantry/move"}) {
    const Row *smallest = nullptr, *largest = nullptr;
    for (const Row& row : report.rows) {
      if (row.subject != subject || row.metric != kLatencyP50) continue;
      if (!row.case_name.starts_with(prefix)) continue;
      if (smallest == nullptr || row.bytes < smallest->bytes) smallest = &row;
      if (largest == nullptr || row.bytes > largest->bytes) largest = &row;
    }
    if (smallest == largest) continue;
    ratios.of_rows(fmt::format("{}: {} / {}, read by nobody", subject,
                               largest->case_name.substr(prefix.size()),
                               smallest->case_name.substr(prefix.size())),
                   largest, smallest, Bar::at_most(1.5));
  }
}

/// How much of its own work a sender gets done while its message goes.
void add_computing(Ratios& ratios, const Report& report) {
  for (const Row& row : report.rows)
    if (row.metric == kComputeSpeed)
      ratios.figure(fmt::format("{}: speed of the sender's own work / undisturbed", row.case_name),
                    row.summary.value, Bar::at_least(0.9));
}

bool is_converting_channel(std::string_view subject) {
  return subject == kAsWholeName || subject == kAsPipelinedName || subject == kAsStreamedName;
}
bool converts_behind(std::string_view subject) {
  return subject.starts_with("send-then-convert/");
}
bool converts_at_reader(std::string_view subject) {
  return subject.starts_with("convert-at-reader/");
}

/// A conversion on the way beside one of its own, in time and in the CPU time of all threads.
void add_typed(Ratios& ratios, const Report& report) {
  for (const Row& row : report.rows) {
    if (row.subject != kAsPipelinedName || row.metric != kLatencyP50) continue;
    const std::string& name = row.case_name;
    const bool is_large = row.bytes >= 64 * kMiB;
    const Row* const ours = best(report, name, kLatencyP50, is_converting_channel);
    const Row* const behind = best(report, name, kLatencyP50, converts_behind);
    add_lead(ratios, name, behind, ours, Bar::at_least(is_large ? 1.6 : 1));
    add_lead(ratios, name, best(report, name, kLatencyP50, converts_at_reader), ours,
             Bar::at_least(1));
    if (behind == nullptr || !is_large) continue;
    ratios.of_rows(fmt::format("{}: CPU time of {} / {}", name, ours->subject, behind->subject),
                   report.find(name, ours->subject, kCpuPerGb),
                   report.find(name, behind->subject, kCpuPerGb), Bar::at_most(1.1));
  }
}

bool decides_by_planes(std::string_view subject) {
  return subject == kDecideWholeName || subject == kDecidePipelinedName;
}
bool decides_by_scan(std::string_view subject) {
  return subject.starts_with("send-then-scan/");
}

/// A decision by planes beside one that reads everything.
void add_decisions(Ratios& ratios, const Report& report) {
  for (const Row& row : report.rows) {
    if (row.subject != kDecideWholeName || row.metric != kLatencyP50) continue;
    add_lead(ratios, row.case_name, best(report, row.case_name, kLatencyP50, decides_by_scan),
             best(report, row.case_name, kLatencyP50, decides_by_planes), Bar::none());
  }
}

}  // namespace

void add_findings(Report& report, bool best_of_peers) {
  const Report measured = report;  // what is added must not move what is looked at
  Ratios ratios(report);
  add_smallest(ratios, measured);
  for (const std::string& name : {format_size(64), format_size(16 * kMiB)})
    add_lead(ratios, name, measured.find(name, kCpuSyncName, kLatencyP50),
             measured.find(name, kSyncName, kLatencyP50), Bar::none());
  add_limits(ratios, measured);
  add_async(ratios);
  if (best_of_peers) add_peers(ratios, measured);
  add_baselines(ratios, measured);
  add_beside(ratios, measured);
  add_fan_out(ratios, measured);
  add_async_calls(ratios, measured);
  add_hand_off(ratios, measured);
  add_computing(ratios, measured);
  add_typed(ratios, measured);
  add_decisions(ratios, measured);
}

}  // namespace gantry::bench
