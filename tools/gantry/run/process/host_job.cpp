#include "run/process/host_job.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <gantry/stage.hpp>
#include <nlohmann/json.hpp>

#include "errors.hpp"
#include "run/file/hosts.hpp"
#include "run/file/pipeline_file.hpp"
#include "run/process/descriptor.hpp"

namespace gantry::run {
namespace {

using JobJson = nlohmann::json;

JobJson settings_json(const std::vector<Setting>& settings) {
  JobJson list = JobJson::array();
  for (const Setting& one : settings) list.push_back(JobJson::array({one.key, one.value}));
  return list;
}

tl::unexpected<Error> no_job() {
  return tl::unexpected(Error{Code::invalid_argument, "standard input holds no job",
                              "`gantry agent` is started by `gantry run` alone"});
}

/// Throws what nlohmann::json throws.
Result<AgentJob> read_job(const JobJson& json) {
  AgentJob result;
  json.at("token").get_to(result.job.token);
  result.job.connect_within =
      std::chrono::nanoseconds(json.at("connect_within_ns").get<std::int64_t>());
  std::vector<Setting> overrides;
  for (const JobJson& one : json.at("settings"))
    overrides.push_back({one.at(0).get<std::string>(), one.at(1).get<std::string>()});
  const Source source{json.at("file").get<std::string>(), json.at("folder").get<std::string>()};
  Mistakes mistakes;
  auto pipeline = parse_pipeline(json.at("text").get<std::string>(), source, overrides, mistakes);
  if (!pipeline) return tl::unexpected(pipeline.error());
  if (const auto fine = mistakes.first(); !fine) return tl::unexpected(fine.error());
  result.pipeline = std::move(*pipeline);
  result.host = json.at("host").get<std::size_t>();
  if (result.host >= result.pipeline.hosts.size()) return no_job();
  return result;
}

}  // namespace

Result<std::string> encode_job(const HostJob& job, const Pipeline& pipeline, std::size_t host) {
  const JobJson json{{"token", job.token},
                     {"connect_within_ns", job.connect_within.count()},
                     {"host", host},
                     {"settings", settings_json(pipeline.overrides)},
                     {"file", pipeline.source.path},
                     {"folder", pipeline.source.folder},
                     {"text", pipeline.text}};
  const Error refused{Code::invalid_argument, pipeline.source.path + ": cannot be told to a host",
                      "its name, its folder and each --set must be UTF-8, and all of it shorter "
                      "than 512 KiB"};
  try {
    std::string line = json.dump();
    if (line.size() < kMostJobBytes) return line;
  } catch (const JobJson::exception&) {
    return tl::unexpected(refused);  // no UTF-8
  }
  return tl::unexpected(refused);
}

Result<AgentJob> decode_job(std::string_view line) {
  try {
    return read_job(JobJson::parse(line));
  } catch (const JobJson::exception&) {
    return no_job();
  }
}

std::string encode_bridges(const std::vector<std::string>& bridges) {
  return JobJson(bridges).dump();
}

Result<std::vector<std::string>> decode_bridges(std::string_view line, const Pipeline& pipeline) {
  try {
    auto bridges = JobJson::parse(line).get<std::vector<std::string>>();
    if (bridges.size() == pipeline.hosts.size()) return bridges;
  } catch (const JobJson::exception&) {
    return no_job();
  }
  return no_job();
}

Result<std::string> make_token() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return tl::unexpected(cli::system_error("getrandom", errno));
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

Result<void> write_token(const std::string& directory, const std::string& token) {
  const std::string path = fmt::format("{}/{}", directory, kStageTokenFile);
  const Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return tl::unexpected(cli::system_error(path, errno));
  if (::write(file.get(), token.data(), token.size()) != static_cast<ssize_t>(token.size()))
    return tl::unexpected(cli::system_error(path, errno));
  return {};
}

}  // namespace gantry::run
