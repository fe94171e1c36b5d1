#include "run/file/hosts.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <gantry/bridge.hpp>
#include <gantry/channel.hpp>

#include "output.hpp"
#include "run/file/settings.hpp"

namespace gantry::run {
namespace {

constexpr const char* kHosts = "hosts";
constexpr unsigned kMostRanks = 1u << 20;

/// One reading of one host.
class HostReader {
 public:
  HostReader(const Source& source, const Entry& entry, const std::vector<Setting>& settings,
             Mistakes& mistakes)
      : source_(source),
        entry_(entry),
        settings_(settings),
        mistakes_(mistakes),
        fields_(source, fmt::format("{}.{}", kHosts, entry.key), entry.at, entry.value) {}

  /// False: nothing but its name is known.
  bool read();
  [[nodiscard]] const Host& host() const noexcept { return host_; }

 private:
  Result<void> check_name() const;
  Result<void> read_address();
  Result<void> read_launch();
  Result<void> read_rank();
  Result<void> read_optional(const char* key, std::string& value);
  Result<std::string> filled(const char* key, const Text& text) const {
    return fill_in(source_, fmt::format("{}.{}.{}", kHosts, entry_.key, key), text, settings_);
  }

  const Source& source_;
  const Entry& entry_;
  const std::vector<Setting>& settings_;
  Mistakes& mistakes_;
  Fields fields_;
  Host host_;
};

Result<void> HostReader::check_name() const {
  if (entry_.value.kind != Node::Kind::table)
    return tl::unexpected(
        Fields(source_, kHosts, entry_.at, entry_.value).wrong_type(entry_, "a table"));
  if (const auto fine = check_channel_name(entry_.key); !fine)
    return tl::unexpected(source_.error(entry_.at, fmt::format("{}.{}", kHosts, entry_.key),
                                        "is no name for a host", to_string(fine.error())));
  return {};
}

bool HostReader::read() {
  host_.name = entry_.key;
  host_.at = entry_.at;
  if (!mistakes_.note(check_name()) ||
      !fields_.allow_only({"address", "launch", "rank", "directory", "gantry"}, mistakes_) ||
      !mistakes_.note(read_address()))
    return false;
  if (!mistakes_.note(read_launch())) host_.launch.clear();
  mistakes_.note(read_optional("directory", host_.directory));
  mistakes_.note(read_optional("gantry", host_.gantry));
  return true;
}

Result<void> HostReader::read_address() {
  const Result<Text> text = fields_.text("address");
  if (!text) return tl::unexpected(text.error());
  const Result<std::string> address = filled("address", *text);
  if (!address) return tl::unexpected(address.error());
  const auto parsed = parse_bridge_address(*address);
  if (!parsed)
    return tl::unexpected(
        fields_.error("address", text->at, parsed.error().message, parsed.error().hint));
  if (!parsed->path.empty())
    return tl::unexpected(fields_.error("address", text->at, "a socket's path is no host",
                                        "write HOST or HOST:PORT"));
  host_.address = *address;
  return {};
}

Result<void> HostReader::read_launch() {
  const auto rank = fields_.number("rank", 1, kMostRanks, 0);
  if (!rank) return tl::unexpected(rank.error());
  host_.rank = *rank;
  if (host_.rank != 0) return read_rank();
  if (fields_.find("launch") == nullptr) {
    host_.launch = {"ssh", "-o", "BatchMode=yes", parse_bridge_address(host_.address)->host};
    host_.launch_at = host_.at;
    return {};
  }
  const auto words = fields_.texts("launch");
  if (!words) return tl::unexpected(words.error());
  host_.launch_at = words->front().at;
  for (const Text& word : *words) {
    auto one = filled("launch", word);
    if (!one) return tl::unexpected(one.error());
    host_.launch.push_back(std::move(*one));
  }
  if (host_.launch.front().empty())
    return tl::unexpected(fields_.error("launch", host_.launch_at, "the program is empty"));
  return {};
}

/// meet_ranks() adds where it waits.
Result<void> HostReader::read_rank() {
  host_.launch_at = host_.at;
  if (const Entry* const launch = fields_.find("launch"))
    return tl::unexpected(
        fields_.error("launch", launch->at, "stands beside rank", "leave one of them out"));
  std::error_code error;
  host_.launch = {std::filesystem::read_symlink("/proc/self/exe", error).string(), "agent",
                  "--reach"};
  return {};
}

Result<void> HostReader::read_optional(const char* key, std::string& value) {
  if (fields_.find(key) == nullptr) return {};
  const Result<Text> text = fields_.text(key);
  if (!text) return tl::unexpected(text.error());
  auto given = filled(key, *text);
  if (!given) return tl::unexpected(given.error());
  if (given->empty()) return tl::unexpected(fields_.error(key, text->at, "is empty"));
  value = std::move(*given);
  return {};
}

bool encrypts(const Host& host) {
  return parse_bridge_address(host.address)->is_encrypted;
}

// A channel lies on one of its hosts, whose address alone counts then.
Result<void> check_address(const Source& source, const Host& host,
                           const std::vector<Host>& others) {
  const std::string name = fmt::format("{}.{}.address", kHosts, host.name);
  // Rank 0 calls the launcher of another rank, and tells it the bridges' token: in clear.
  if (host.rank != 0 && encrypts(host))
    return tl::unexpected(
        source.error(host.at, name,
                     fmt::format("'{}' with rank = {}: a rank is told its token in clear",
                                 host.address, host.rank),
                     "start the host by launch = ['ssh', ...], or leave tls: out"));
  for (const Host& other : others)
    if (!other.address.empty() && encrypts(host) != encrypts(other))
      return tl::unexpected(
          source.error(host.at, name,
                       fmt::format("'{}' where {} has '{}': all hosts encrypt, or none",
                                   host.address, other.name, other.address),
                       "put tls: in front of each address"));
  return {};
}

}  // namespace

std::vector<Host> read_hosts(const Source& source, const Fields& file,
                             const std::vector<Setting>& settings, Mistakes& mistakes) {
  std::vector<Host> hosts;
  const Result<const Entry*> table = file.find(kHosts, Node::Kind::table);
  if (!mistakes.note(table) || *table == nullptr) return hosts;
  for (const Entry& entry : (*table)->value.entries) {
    HostReader reader(source, entry, settings, mistakes);
    if (reader.read()) mistakes.note(check_address(source, reader.host(), hosts));
    hosts.push_back(reader.host());
  }
  return hosts;
}

}  // namespace gantry::run
