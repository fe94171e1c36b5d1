// gantry pages: writes the manual and the completions; hidden, for whoever builds and packs.
#include "pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "commands.hpp"
#include "errors.hpp"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;

Result<void> write_file(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (file) return {};
  return tl::unexpected(Error{Code::system, fmt::format("{}: cannot be written", path.string()),
                              "name a folder that can be written"});
}

Result<void> write_manual(const CLI::App& command, const std::string& words, const fs::path& to) {
  std::string name = words;
  std::ranges::replace(name, ' ', '-');
  if (auto written = write_file(to / (name + ".1"), manual_page(command, words)); !written)
    return written;
  for (const CLI::App* below : shown_commands(command))
    if (auto written = write_manual(*below, words + " " + below->get_name(), to); !written)
      return written;
  return {};
}

Result<void> write_pages(const CLI::App& gantry, const fs::path& folder) {
  if (auto written = write_manual(gantry, gantry.get_name(), folder / "man1"); !written)
    return written;
  if (auto written = write_file(folder / "bash" / "gantry", bash_completion(gantry)); !written)
    return written;
  return write_file(folder / "zsh" / "_gantry", zsh_completion(gantry));
}

}  // namespace

std::vector<const CLI::App*> shown_commands(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App* below) { return !below->get_group().empty(); });
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return !option->get_positional(); });
}

std::vector<const CLI::Option*> arguments_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

namespace {

/// What a description begins with that lists what there is: "stream, fabric or shared: ...".
std::vector<std::string> listed_at_first(std::string_view text) {
  constexpr std::string_view kLast = " or ", kNext = ", ";
  std::vector<std::string> words;
  for (bool is_last = false;;) {
    const std::size_t end =
        std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    if (words.back().empty()) return {};
    if (is_last) break;
    is_last = text.starts_with(kLast);
    if (!is_last && !text.starts_with(kNext)) return {};
    text.remove_prefix(is_last ? kLast.size() : kNext.size());
  }
  const bool ends_here = text.empty() || text.starts_with(':') || text.starts_with(" (");
  return ends_here ? words : std::vector<std::string>();
}

}  // namespace

Values values_of(const CLI::Option& option) {
  Values values;
  std::string type = option.get_type_name();
  values.are_channels = type == kChannelType;
  values.are_files = type == "FILE" || type == "DIRECTORY" || option.get_single_name() == "FILE";
  if (!type.empty() && type.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ:[") == std::string::npos)
    values.words = CLI::detail::split(type, '|');  // "gantry|pipe"
  else if (!values.are_channels && !values.are_files)
    values.words = listed_at_first(option.get_description());
  return values;
}

void add_pages(const Command& command, int& exit_code) {
  auto folder = std::make_shared<std::string>();
  command->add_option("FOLDER", *folder, "Where to: man1/, bash/ and zsh/ below it")->required();
  command->footer("Example: gantry pages build/pages && man build/pages/man1/gantry-run.1");
  command->callback([&app = *command.app().get_parent(), folder, &exit_code] {
    // What lies beside this program is no fact of where the pages will be read.
    app.get_subcommand("bench")->footer([] {
      return std::string(
          "Without a NAME it says which there are.\nExample: gantry bench ipc --quick");
    });
    const auto written = write_pages(app, *folder);
    exit_code = written ? 0 : fail(written.error());
  });
}

}  // namespace gantry::cli
