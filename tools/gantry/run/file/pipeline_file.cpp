#include "run/file/pipeline_file.hpp"

#include <errno.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gantry/channel.hpp>
#include <gantry/group.hpp>
#include <optional>

#include "errors.hpp"
#include "output.hpp"
#include "run/file/environment.hpp"
#include "run/file/fields.hpp"
#include "run/file/graph.hpp"
#include "run/file/hosts.hpp"
#include "run/file/images.hpp"
#include "run/file/settings.hpp"
#include "tools/command_line/suggest.hpp"

namespace gantry::run {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;  // no pipeline is longer; a device file is
constexpr const char* kCommandHint =
    "write command = [\"program\", \"argument\"], or a line of shell: shell = \"...\"";

/// One reading of one file: what its parts share.
class Reader {
 public:
  Reader(const Source& source, const Node& document, const std::vector<Setting>& overrides)
      : overrides_(overrides), file_(source, "", Position{}, document) {
    pipeline_.source = source;
    pipeline_.overrides = overrides;
  }

  Pipeline read(Mistakes& mistakes);

 private:
  Result<void> read_name();
  Result<const Entry*> find_stages() const;
  Result<void> check_stage(const Entry& entry) const;
  Stage read_stage(const Entry& entry, Mistakes& mistakes) const;
  Result<void> read_replicas(const Fields& fields, Stage& stage) const;
  Result<unsigned> read_ranks(const Fields& fields, const Stage& stage) const;
  Result<void> read_command(const Fields& fields, Stage& stage) const;
  Result<void> read_shell(const Fields& fields, Stage& stage) const;
  void read_environment(const Fields& fields, Stage& stage, Mistakes& mistakes) const;
  Result<void> read_host(const Fields& fields, Stage& stage) const;
  Result<Variable> read_variable(const Fields& fields, const Entry& entry) const;
  void read_channels(Mistakes& mistakes);
  std::optional<Channel> read_channel(const Entry& entry, Mistakes& mistakes) const;
  Result<std::size_t> stage_of(const Fields& fields, std::string_view key) const;
  Result<Bytes> read_budget(const Fields& fields) const;
  Result<Text> read_as(const Fields& fields, const Entry& channel) const;
  Result<void> check_names(const Channel& channel) const;
  Result<void> check_acyclic(const Fields& fields, const Channel& channel) const;

  const Source& source() const noexcept { return pipeline_.source; }

  Pipeline pipeline_;
  const std::vector<Setting>& overrides_;
  Fields file_;
  std::vector<Setting> settings_;
};

// What others refer to is kept although it has a mistake, so that they have none of their own.
Pipeline Reader::read(Mistakes& mistakes) {
  static_cast<void>(
      file_.allow_only({"name", "settings", "hosts", "stages", "channels", "images"}, mistakes));
  settings_ = read_settings(source(), file_, overrides_, mistakes);
  mistakes.note(read_name());
  pipeline_.hosts = read_hosts(source(), file_, settings_, mistakes);
  if (const auto stages = find_stages(); mistakes.note(stages)) {
    for (const Entry& entry : (*stages)->value.entries)
      pipeline_.stages.push_back(read_stage(entry, mistakes));
    read_channels(mistakes);
  }
  pipeline_.images = read_images(source(), file_, settings_, mistakes);
  mistakes.note(check_images(pipeline_));
  return std::move(pipeline_);
}

Result<void> Reader::read_name() {
  pipeline_.name = std::filesystem::path(source().path).stem().string();
  const auto entry = file_.find("name", Node::Kind::string);
  if (!entry) return tl::unexpected(entry.error());
  if (*entry != nullptr) pipeline_.name = (*entry)->value.text;
  return {};
}

Result<const Entry*> Reader::find_stages() const {
  constexpr const char* kHint = "add [stages.NAME] with command = [\"program\", \"argument\"]";
  auto table = file_.find("stages", Node::Kind::table);
  if (!table || (*table != nullptr && !(*table)->value.entries.empty())) return table;
  return tl::unexpected(source().error(*table == nullptr ? Position{} : (*table)->at, "stages",
                                       "the pipeline has none", kHint));
}

Result<void> Reader::check_stage(const Entry& entry) const {
  if (entry.value.kind != Node::Kind::table)
    return tl::unexpected(
        Fields(source(), "stages", entry.at, entry.value).wrong_type(entry, "a table"));
  if (const auto fine = check_channel_name(entry.key); !fine)
    return tl::unexpected(source().error(entry.at, "stages." + entry.key, "is no name for a stage",
                                         to_string(fine.error())));
  return {};
}

Stage Reader::read_stage(const Entry& entry, Mistakes& mistakes) const {
  const Fields fields(source(), "stages." + entry.key, entry.at, entry.value);
  Stage stage;
  stage.name = entry.key;
  stage.at = entry.at;
  if (!mistakes.note(check_stage(entry))) return stage;
  const bool all_known =
      fields.allow_only({"command", "shell", "replicas", "ranks", "environment", "host"}, mistakes);
  mistakes.note(read_replicas(fields, stage));
  const bool is_shell = fields.find("shell") != nullptr;
  bool has_program = false;
  if (all_known || is_shell || fields.find("command") != nullptr)  // it may be what is misspelt
    has_program = mistakes.note(is_shell ? read_shell(fields, stage) : read_command(fields, stage));
  read_environment(fields, stage, mistakes);
  has_program &= mistakes.note(read_host(fields, stage));
  if (!has_program) stage.command.clear();  // or it would be looked for
  return stage;
}

Result<void> Reader::read_replicas(const Fields& fields, Stage& stage) const {
  const Entry* const ranks = fields.find("ranks");
  if (ranks != nullptr && fields.find("replicas") != nullptr)
    return tl::unexpected(fields.error("ranks", ranks->at, "stands beside replicas",
                                       "keep one of the two: each rank is a replica"));
  stage.is_group = ranks != nullptr;
  const auto count =
      stage.is_group ? read_ranks(fields, stage) : fields.number("replicas", 1, kMaxReplicas, 1);
  if (!count) return tl::unexpected(count.error());
  stage.replicas = *count;
  return {};
}

/// A number, or a text with a setting: so --set gives it.
Result<unsigned> Reader::read_ranks(const Fields& fields, const Stage& stage) const {
  const Node& value = fields.find("ranks")->value;
  if (value.kind != Node::Kind::string) return fields.number("ranks", 1, kMostGroupRanks, 1);
  const auto text = fill_in(source(), fmt::format("stages.{}.ranks", stage.name),
                            {value.text, value.at}, settings_);
  if (!text) return tl::unexpected(text.error());
  const auto number = cli::parse_number(*text, 1, kMostGroupRanks);
  if (number) return static_cast<unsigned>(*number);
  Error wrong = fields.error(
      "ranks", value.at, fmt::format("'{}' is no number from 1 to {}", *text, kMostGroupRanks),
      *text == value.text ? "" : fmt::format("it comes from \"{}\"", value.text));
  for (const Setting& given : overrides_)
    if (value.text.find(fmt::format("{{{}}}", given.key)) != std::string::npos)
      wrong.message = fmt::format("--set {}={}: {}", given.key, given.value, wrong.message);
  return tl::unexpected(wrong);
}

Result<void> Reader::read_command(const Fields& fields, Stage& stage) const {
  const Entry* const entry = fields.find("command");
  if (entry == nullptr) return tl::unexpected(fields.missing("command", kCommandHint));
  if (entry->value.kind == Node::Kind::string)
    return tl::unexpected(
        fields.error("command", entry->value.at, "is a string, not a list", kCommandHint));
  const auto words = fields.texts("command");
  if (!words) return tl::unexpected(words.error());
  for (const Text& word : *words) {
    auto filled = fill_in(source(), fmt::format("stages.{}.command", stage.name), word, settings_);
    if (!filled) return tl::unexpected(filled.error());
    stage.command.push_back(std::move(*filled));
  }
  stage.command_at = words->front().at;
  if (stage.command.front().empty())
    return tl::unexpected(fields.error("command", stage.command_at, "the program is empty"));
  return {};
}

/// A line of shell, in which every program of a pipe counts, not only the last.
Result<void> Reader::read_shell(const Fields& fields, Stage& stage) const {
  if (fields.find("command") != nullptr)
    return tl::unexpected(fields.error("shell", fields.find("shell")->at, "stands beside a command",
                                       "keep one of the two"));
  const auto line = fields.text("shell");
  if (!line) return tl::unexpected(line.error());
  auto filled = fill_in(source(), fmt::format("stages.{}.shell", stage.name), *line, settings_);
  if (!filled) return tl::unexpected(filled.error());
  stage.command = {"bash", "-o", "pipefail", "-c", std::move(*filled)};
  stage.command_key = "shell";
  stage.command_at = line->at;
  return {};
}

void Reader::read_environment(const Fields& fields, Stage& stage, Mistakes& mistakes) const {
  const auto table = fields.find("environment", Node::Kind::table);
  if (!mistakes.note(table) || *table == nullptr) return;
  const Fields variables(source(), fmt::format("stages.{}.environment", stage.name), (*table)->at,
                         (*table)->value);
  for (const Entry& entry : (*table)->value.entries) {
    Result<Variable> variable = read_variable(variables, entry);
    if (mistakes.note(variable)) stage.environment.push_back(std::move(*variable));
  }
}

Result<void> Reader::read_host(const Fields& fields, Stage& stage) const {
  if (fields.find("host") == nullptr) return {};
  const Result<Text> name = fields.text("host");
  if (!name) return tl::unexpected(name.error());
  const auto found = std::ranges::find(pipeline_.hosts, name->value, &Host::name);
  if (found == pipeline_.hosts.end()) {
    std::vector<std::string> known;
    for (const Host& host : pipeline_.hosts) known.push_back(host.name);
    return tl::unexpected(fields.error(
        "host", name->at, fmt::format("there is no host '{}'", name->value),
        known.empty() ? fmt::format("add [hosts.{}] with address = \"...\"", name->value)
                      : cli::suggest(name->value, known)));
  }
  stage.host = static_cast<std::size_t>(found - pipeline_.hosts.begin());
  stage.host_name = name->value;
  return {};
}

Result<Variable> Reader::read_variable(const Fields& fields, const Entry& entry) const {
  using namespace std::string_view_literals;
  if (entry.key.empty() || entry.key.find_first_of("=\0"sv) != std::string::npos)
    return tl::unexpected(
        fields.error(entry.key, entry.at, "is no name for an environment variable"));
  if (std::ranges::count(own_variables(), entry.key) != 0)
    return tl::unexpected(
        fields.error(entry.key, entry.at, "is set by gantry run", "choose another name"));
  if (!entry.value.is_scalar())
    return tl::unexpected(fields.wrong_type(entry, "a string, a number, or true or false"));
  auto value = fill_in(source(), entry.key, {entry.value.text, entry.value.at}, settings_);
  if (!value) return tl::unexpected(value.error());
  return Variable{entry.key, std::move(*value)};
}

void Reader::read_channels(Mistakes& mistakes) {
  const auto table = file_.find("channels", Node::Kind::table);
  if (!mistakes.note(table) || *table == nullptr) return;
  for (const Entry& entry : (*table)->value.entries)
    if (auto channel = read_channel(entry, mistakes))
      pipeline_.channels.push_back(std::move(*channel));
}

std::optional<Channel> Reader::read_channel(const Entry& entry, Mistakes& mistakes) const {
  if (entry.value.kind != Node::Kind::table) {
    mistakes.note<void>(tl::unexpected(
        Fields(source(), "channels", entry.at, entry.value).wrong_type(entry, "a table")));
    return std::nullopt;
  }
  const Fields fields(source(), "channels." + entry.key, entry.at, entry.value);
  const bool all_known = fields.allow_only({"from", "to", "slots", "budget", "as"}, mistakes);
  const auto note_stage = [&](std::string_view key, const Result<std::size_t>& stage) {
    const bool may_be_misspelt = !all_known && fields.find(key) == nullptr;
    return !may_be_misspelt && mistakes.note(stage);
  };
  const auto from = stage_of(fields, "from");
  const auto to = stage_of(fields, "to");
  const auto slots = fields.number("slots", 1, ProducerOptions::kMaxSlots, Channel::kDefaultSlots);
  const auto budget = read_budget(fields);
  const auto as = read_as(fields, entry);
  bool is_sound = note_stage("from", from);
  is_sound &= note_stage("to", to);
  is_sound &= mistakes.note(slots);
  is_sound &= mistakes.note(budget);
  is_sound &= mistakes.note(as);
  if (!is_sound || !all_known) return std::nullopt;
  Channel channel{entry.key, entry.at, *from, *to, *slots, *budget, as->value, as->at};
  if (!mistakes.note(check_names(channel)) || !mistakes.note(check_acyclic(fields, channel)))
    return std::nullopt;
  return channel;
}

Result<std::size_t> Reader::stage_of(const Fields& fields, std::string_view key) const {
  const Result<Text> name = fields.text(key);
  if (!name) return tl::unexpected(name.error());
  const auto found = std::ranges::find(pipeline_.stages, name->value, &Stage::name);
  if (found != pipeline_.stages.end())
    return static_cast<std::size_t>(found - pipeline_.stages.begin());
  std::vector<std::string> known;
  for (const Stage& stage : pipeline_.stages) known.push_back(stage.name);
  return tl::unexpected(fields.error(key, name->at,
                                     fmt::format("there is no stage '{}'", name->value),
                                     cli::suggest(name->value, known)));
}

Result<Bytes> Reader::read_budget(const Fields& fields) const {
  const Entry* entry = fields.find("budget");
  if (entry == nullptr) return Bytes{0};
  const Node& value = entry->value;
  if (value.kind != Node::Kind::string && value.kind != Node::Kind::integer)
    return tl::unexpected(fields.wrong_type(*entry, "a size such as \"2GiB\""));
  const Result<Bytes> bytes = cli::parse_bytes(value.text);
  if (!bytes || *bytes == 0)
    return tl::unexpected(fields.error("budget", value.at,
                                       fmt::format("'{}' is not a size", value.text),
                                       "write it like \"512MiB\" or \"2GiB\""));
  return *bytes;
}

Result<Text> Reader::read_as(const Fields& fields, const Entry& channel) const {
  if (fields.find("as") == nullptr) return Text{};
  Result<Text> text = fields.text("as");
  if (!text) return text;
  auto filled = fill_in(source(), fmt::format("channels.{}.as", channel.key), *text, settings_);
  if (!filled) return tl::unexpected(filled.error());
  if (const auto as = As::parse(*filled); !as)
    return tl::unexpected(fields.error("as", text->at, as.error().message, as.error().hint));
  return Text{std::move(*filled), text->at};
}

Result<void> Reader::check_names(const Channel& channel) const {
  const std::string longest = link_name(channel.name, pipeline_.stages[channel.from].replicas - 1,
                                        pipeline_.stages[channel.to].replicas - 1);
  Result<void> fine = check_channel_name(channel.name);
  if (fine) fine = check_channel_name(longest);
  if (fine) return {};
  return tl::unexpected(source().error(channel.at, "channels." + channel.name,
                                       "is no name for a channel", to_string(fine.error())));
}

/// Channels are added one by one, so a cycle is found at the channel that closes it.
Result<void> Reader::check_acyclic(const Fields& fields, const Channel& channel) const {
  const auto name = [this](std::size_t stage) { return pipeline_.stages[stage].name; };
  if (channel.from == channel.to)
    return tl::unexpected(fields.error(
        "to", channel.at, fmt::format("leads from '{0}' back to '{0}'", name(channel.from)),
        "a channel connects two stages"));
  const auto back = find_path(pipeline_.channels, channel.to, channel.from);
  if (back.empty()) return {};
  std::string path = name(channel.from);
  for (const std::size_t stage : back) path += " -> " + name(stage);
  return tl::unexpected(source().error(channel.at, "channels." + channel.name,
                                       "closes a cycle: " + path,
                                       "data must flow one way: remove one of these channels"));
}

Result<std::string> read_text(const std::string& path) {
  constexpr const char* kHint = "name a pipeline file (docs/formats/pipeline-file.md)";
  if (path.empty())
    return tl::unexpected(Error{Code::invalid_argument, "FILE: its name is empty", kHint});
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return tl::unexpected(cli::system_error(path, EISDIR, kHint));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return tl::unexpected(cli::system_error(path, errno, kHint));
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return tl::unexpected(cli::system_error(path, errno, kHint));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes)
    return tl::unexpected(Error{Code::too_large,
                                fmt::format("{}: is longer than {} KiB", path, kMaxFileBytes >> 10),
                                kHint});
  return text;
}

}  // namespace

Result<Pipeline> parse_pipeline(std::string_view text, const Source& source,
                                const std::vector<Setting>& overrides, Mistakes& mistakes) {
  const Result<Node> document = parse_document(text, source);
  if (!document) return tl::unexpected(document.error());
  Pipeline pipeline = Reader(source, *document, overrides).read(mistakes);
  pipeline.text = text;
  return pipeline;
}

Result<Pipeline> read_pipeline(const std::string& path, const std::vector<Setting>& overrides,
                               Mistakes& mistakes) {
  const Result<std::string> text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  std::error_code error;
  const auto folder =
      std::filesystem::canonical(std::filesystem::absolute(path, error).parent_path(), error);
  if (error) return tl::unexpected(cli::system_error(path, error.value()));
  return parse_pipeline(*text, Source{path, folder.string()}, overrides, mistakes);
}

Result<Setting> parse_override(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return tl::unexpected(Error{Code::invalid_argument, fmt::format("{}: is not KEY=VALUE", text),
                                "write --set KEY=VALUE"});
  return Setting{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

}  // namespace gantry::run
