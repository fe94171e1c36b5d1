// gantry keep: images in memory for whoever attaches them.
#include <fmt/format.h>

#include <gantry/image.hpp>
#include <gantry/runtime.hpp>

#include <filesystem>

#include "channel_options.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "image/tensor_files.hpp"
#include "interrupt.hpp"
#include "options.hpp"

namespace gantry::cli {
namespace {

struct KeepCommand {
  std::vector<std::string> paths;
  std::vector<std::string> names;
  Bytes budget = 0;
  std::optional<Access> access;
  bool is_huge = false;
  bool is_quiet = false;
};

/// Names in the files' order; a file without one has that of its file, without its ending.
Result<std::vector<KeptFile>> files_of(const KeepCommand& command) {
  if (command.names.size() > command.paths.size())
    return refuse(fmt::format("{} names for {} images", command.names.size(), command.paths.size()),
                  "give --name as often as there are images, or less often");
  std::vector<KeptFile> files;
  for (std::size_t i = 0; i < command.paths.size(); ++i) {
    const std::string& path = command.paths[i];
    const bool is_named = i < command.names.size();
    std::string name = is_named ? command.names[i] : std::filesystem::path(path).stem().string();
    if (const auto fine = check_channel_name(name); !fine)
      return refuse(fmt::format("{}: {}", path, to_string(fine.error())),
                    is_named ? "" : "give it a name with --name");
    files.push_back({std::move(name), path});
  }
  return files;
}

void say(const KeptImage& image) {
  if (!image.trouble.empty())
    note(fmt::format("{}: not kept now: {}", image.name, image.trouble));
  else if (image.is_there)
    note(fmt::format("{}: kept: {}", image.name, image.loaded.text()));
  else
    note(fmt::format("{}: gone for another; it comes back when it is attached", image.name));
}

Result<void> keep(const KeepCommand& command) {
  auto interrupt = Interrupt::create();  // before any thread
  if (!interrupt) return tl::unexpected(interrupt.error());
  const auto files = files_of(command);
  if (!files) return tl::unexpected(files.error());
  KeepOptions options;
  options.interrupt_descriptor = interrupt->descriptor();
  if (command.access) options.access = *command.access;
  options.budget_bytes = command.budget;
  options.collapse = command.is_huge;
  if (auto io = make_file_io("io_uring")) options.file_io = *io;
  auto keeper = ImageKeeper::open(*files, options);
  if (!keeper) return tl::unexpected(keeper.error());
  return keeper->serve([&](const KeptImage& one) {
    if (!command.is_quiet || !one.trouble.empty()) say(one);
  });
}

}  // namespace

void add_keep(const Command& command, int& exit_code) {
  auto options = std::make_shared<KeepCommand>();
  command->add_option("FILE", options->paths, "Images, as gantry pack makes them")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--name", options->names,
                   "What an image is called, once for each in their order (default: its file's "
                   "name without .gimg)")
      ->type_name("NAME")
      ->repeated();
  add_parsed(*command, "--budget", options->budget, &parse_bytes, "BYTES",
             "For all images together; unused ones are dropped when room is short (default: four "
             "fifths of the memory)");
  command->add_flag("--huge", options->is_huge,
                    "Gather their pages into huge ones, which takes some 2 ms a MiB; reserved ones "
                    "(vm.nr_hugepages) are taken anyway");
  add_users(*command, options->access);
  command->add_flag("--quiet", options->is_quiet, "Print only errors");
  command->footer(
      "Runs until it is interrupted; readers keep their images then. Programs map one\n"
      "with gantry::attach_image(NAME), gantry.image(NAME) in Python; gantry ls lists\n"
      "them.\n"
      "Example: gantry keep model.gimg index.gimg --budget 20G");
  command->callback([options, command, &exit_code] {
    const bool keeps_nothing = command->count("--budget") != 0 && options->budget == 0;
    const Error nothing{Code::invalid_argument, "--budget: 0 keeps nothing",
                        "leave it out for four fifths of the memory"};
    const auto done = keeps_nothing ? Result<void>(tl::unexpected(nothing)) : keep(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
