// gantry ranks: the ranks of groups, and the operation at which each is.
#include <fmt/format.h>

#include "channel_view.hpp"
#include "commands.hpp"
#include "directory.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "rank_view.hpp"

namespace gantry::cli {
namespace {

struct RanksOptions {
  std::string group;  ///< Empty: all.
  std::string directory;
  bool as_json = false;
};

Result<void> ranks(const RanksOptions& options) {
  const std::string path = channel_directory_path(options.directory);
  const auto exists = directory_exists(path);
  if (!exists) return tl::unexpected(exists.error());
  if (const auto fine = can_look_into(options.directory); *exists && !fine) return fine;
  const std::string where =
      *exists ? fmt::format("{}, in its groups/ or those of its {}*/", path, kRunPrefix)
              : path + ", which is not there yet";
  auto all = list_ranks(options.directory);
  if (!all) return tl::unexpected(all.error());
  if (!options.group.empty())
    std::erase_if(*all, [&](const RankStatus& rank) { return rank.group != options.group; });
  if (!options.group.empty() && all->empty())
    return tl::unexpected(
        Error{Code::not_found,
              fmt::format("no ranks of a group '{}' in {}", printable(options.group), where),
              "without a name gantry ranks lists all"});
  if (options.as_json) return print(ranks_json(*all));
  if (!all->empty()) return print(ranks_table(*all));
  note("no ranks of groups in " + where);
  return {};
}

}  // namespace

void add_ranks(const Command& command, int& exit_code) {
  auto options = std::make_shared<RanksOptions>();
  command->add_option("group", options->group, "The group's name (default: all)");
  command
      ->add_option("--directory", options->directory,
                   "Where to look (default $GANTRY_DIR, or the user's runtime directory)")
      ->type_name("DIRECTORY");
  command->add_flag("--json", options->as_json, "All facts as one JSON document");
  command->footer(
      "AT: the steps of the plan that keep the rank. FOR: since its state began.\n"
      "Runs of gantry run below the directory are included. Ranks are not\n"
      "asked: a stopped rank is listed with its last known state.\n"
      "Example: gantry ranks --json");
  command->callback([options, &exit_code] {
    const auto done = ranks(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
