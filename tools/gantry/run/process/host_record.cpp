#include "run/process/host_record.hpp"
#include "tools/command_line/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace gantry::run {
namespace {

using Json = nlohmann::json;
using Kind = HostRecord::Kind;

constexpr std::array<std::string_view, 9> kRecordNames{"hello", "ready",  "error", "out",     "err",
                                                       "note",  "failed", "ended", "counters"};
constexpr std::size_t kLongestText = 2000;  // of an error

std::string cut(const std::string& text) {
  return text.substr(0, kLongestText);
}

/// Every number of a report, in one order for both directions.
template <class Report, class Take>
void each_number(Report& report, Take take) {
  take(report.messages);
  take(report.bytes);
  for (auto& count : report.copies) take(count);
  for (auto& count : report.copied_bytes) take(count);
  take(report.copy_ns);
  take(report.cpu_ns);
  take(report.wait_ns);
  take(report.handoff_p50_ns);
  take(report.handoff_p99_ns);
  take(report.handoff_p999_ns);
  take(report.handoff_total_ns);
  take(report.idle_ns);
}

Json fields_of(const HostRecord& record) {
  const auto& [stage, replica] = record.process;
  Json fields = Json::array({kRecordNames[static_cast<std::size_t>(record.kind)]});
  const auto add = [&fields](const auto&... values) { (fields.push_back(values), ...); };
  switch (record.kind) {
    case Kind::hello:
      add(cut(record.text));
      break;
    case Kind::ready:
      add(record.port);
      break;
    case Kind::error:
      add(cut(record.text), cut(record.hint));
      break;
    case Kind::out:
    case Kind::err:
      add(stage, replica);
      break;
    case Kind::failed:
      add(stage, replica, record.flag, cut(record.text), cut(record.hint));
      break;
    case Kind::ended:
      add(stage, replica, record.flag, record.exit.status, record.exit.signal, record.usage.wall_s,
          record.usage.user_s, record.usage.system_s, record.usage.max_rss_bytes);
      break;
    case Kind::counters:
      add(record.link, record.flag, record.counters.opened, record.counters.connected,
          record.counters.ended, record.counters.broken);
      each_number(record.counters, add);
      break;
    case Kind::note:
      break;
  }
  return fields;
}

bool has_text(Kind kind) noexcept {
  return kind == Kind::out || kind == Kind::err || kind == Kind::note;
}

/// Takes one field after the other. Throws what nlohmann::json throws, and std::out_of_range.
class FieldReader {
 public:
  explicit FieldReader(const Json& fields) : fields_(fields) {}

  std::uint64_t number(std::uint64_t most) {
    const Json& field = fields_.at(next_++);
    if (!field.is_number_unsigned() || field.get<std::uint64_t>() > most)
      throw std::out_of_range("a number");
    return field.get<std::uint64_t>();
  }
  double seconds() {
    const auto value = fields_.at(next_++).get<double>();
    if (!std::isfinite(value) || value < 0) throw std::out_of_range("a time");
    return value;
  }
  bool flag() { return fields_.at(next_++).get<bool>(); }
  std::string text() {
    const auto value = fields_.at(next_++).get<std::string>();
    return printable(value);
  }
  bool is_at_end() const { return next_ == fields_.size(); }

 private:
  const Json& fields_;
  std::size_t next_ = 1;  // behind the kind
};

void read_process(FieldReader& fields, const Plan& plan, std::size_t host, ProcessId& process) {
  const std::vector<Stage>& stages = plan.pipeline().stages;
  process.stage = fields.number(stages.size() - 1);
  process.replica = static_cast<unsigned>(fields.number(stages[process.stage].replicas - 1));
  if (stages[process.stage].host != host) throw std::out_of_range("a stage of another host");
}

void read_counters(FieldReader& fields, const Plan& plan, std::size_t host, HostRecord& record) {
  if (plan.links().empty()) throw std::out_of_range("a link");
  record.link = fields.number(plan.links().size() - 1);
  record.flag = fields.flag();
  const Link& link = plan.links()[record.link];
  if (plan.pipeline().stages[(record.flag ? link.from : link.to).stage].host != host)
    throw std::out_of_range("an end of another host");
  record.counters.opened = fields.flag();
  record.counters.connected = fields.flag();
  record.counters.ended = fields.flag();
  record.counters.broken = fields.flag();
  // Sums over all links must not overflow.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
  each_number(record.counters, [&](std::uint64_t& number) { number = fields.number(kMost); });
}

void read_end(FieldReader& fields, HostRecord& record) {
  constexpr std::uint64_t kMostStatus = 255;
  record.flag = fields.flag();
  record.exit.status = static_cast<int>(fields.number(kMostStatus));
  record.exit.signal = static_cast<int>(fields.number(kMostStatus));
  record.usage.wall_s = fields.seconds();
  record.usage.user_s = fields.seconds();
  record.usage.system_s = fields.seconds();
  record.usage.max_rss_bytes = fields.number(std::uint64_t{1} << 56);
}

HostRecord read_record(const Json& json, const Plan& plan, std::size_t host) {
  FieldReader fields(json);
  HostRecord record;
  const auto name = json.at(0).get<std::string>();
  const auto* const found = std::ranges::find(kRecordNames, name);
  if (found == kRecordNames.end()) throw std::out_of_range("an unknown record");
  record.kind = static_cast<Kind>(found - kRecordNames.begin());
  if (record.kind == Kind::ready) {
    record.port = static_cast<unsigned>(fields.number(65535));
    return record;
  }
  if (record.kind == Kind::counters) {
    read_counters(fields, plan, host, record);
    return record;
  }
  const bool has_process = record.kind == Kind::out || record.kind == Kind::err ||
                           record.kind == Kind::failed || record.kind == Kind::ended;
  if (has_process) read_process(fields, plan, host, record.process);
  if (record.kind == Kind::failed) record.flag = fields.flag();
  if (record.kind == Kind::ended) read_end(fields, record);
  if (record.kind == Kind::hello || record.kind == Kind::error || record.kind == Kind::failed)
    record.text = fields.text();
  if (record.kind == Kind::error || record.kind == Kind::failed) record.hint = fields.text();
  return record;
}

}  // namespace

std::string encode_record(const HostRecord& record) {
  std::string line = cli::json_text(fields_of(record));
  if (has_text(record.kind)) line += "\t" + record.text;
  return line;
}

Result<HostRecord> decode_record(std::string_view line, const Plan& plan, std::size_t host) {
  const std::size_t tab = line.find('\t');
  // nlohmann::json says by exceptions that a value is of another type.
  try {
    HostRecord record = read_record(Json::parse(line.substr(0, tab)), plan, host);
    if (has_text(record.kind)) record.text = tab == line.npos ? "" : line.substr(tab + 1);
    return record;
  } catch (const std::exception&) {
    constexpr std::size_t kShown = 60;
    return tl::unexpected(Error{
        Code::peer_misbehaved,
        fmt::format("its agent said what is no record: '{}'", printable(line.substr(0, kShown))),
        "nothing between gantry run and the agent may write to its standard output"});
  }
}

}  // namespace gantry::run
