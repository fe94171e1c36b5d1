// gantry image: what an image holds, whether it is whole, and its tensors as files.
#include <fmt/format.h>

#include <gantry/image.hpp>
#include <gantry/runtime.hpp>

#include "channel_view.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "image/extract.hpp"
#include "image/image_view.hpp"
#include "image/tensor_files.hpp"
#include "output.hpp"
#include "tools/command_line/json_text.hpp"

namespace gantry::cli {
namespace {

struct ImageCommand {
  std::string file;
  std::string to;
  std::vector<std::string> names;  ///< Empty: all.
  bool as_json = false;
};

Result<void> list(const ImageCommand& command) {
  const auto image = Image::open(command.file);
  if (!image) return tl::unexpected(image.error());
  if (command.as_json) return print(json_text(image_json(*image, true), 2) + "\n");
  return print(image_facts(*image) + "\n" + image_table(*image));
}

Result<void> verify(const ImageCommand& command) {
  auto image = Image::open(command.file);
  if (!image) return tl::unexpected(image.error());
  if (auto fine = image->verify(); !fine) return fine;
  return print(image_verified(*image));
}

Result<void> estimate(const ImageCommand& command) {
  const auto image = Image::open(command.file);
  if (!image) return tl::unexpected(image.error());
  LoadOptions options;
  if (auto io = make_file_io("io_uring")) options.file_io = *io;
  const auto said = estimate_load(*image, options);
  if (!said) return tl::unexpected(said.error());
  return print(fmt::format("{}: loads in {}\n", command.file, said->text()));
}

Result<void> extract_tensors(const ImageCommand& command) {
  auto interrupt = Interrupt::create();  // before any thread
  if (!interrupt) return tl::unexpected(interrupt.error());
  auto image = Image::open(command.file);
  if (!image) return tl::unexpected(image.error());
  std::vector<const ImageTensor*> tensors;
  for (const std::string& name : command.names) {
    tensors.push_back(image->find(name));
    if (tensors.back() == nullptr)
      return refuse(fmt::format("{}: there is no tensor '{}'", command.file, printable(name)),
                    "gantry image ls lists them", Code::not_found);
  }
  if (command.names.empty())
    for (const ImageTensor& one : image->tensors()) tensors.push_back(&one);
  return extract(command.file, *image, tensors, command.to, *interrupt);
}

}  // namespace

void add_image(const Command& image, int& exit_code) {
  image->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& what, const char* example,
                       Result<void> (*run)(const ImageCommand&)) {
    const auto command = image->add_subcommand(name, what);
    auto options = std::make_shared<ImageCommand>();
    command->add_option("FILE", options->file, "The image")->required();
    command->footer(fmt::format("Example: gantry image {} {}", name, example));
    command->callback([run, options, &exit_code] {
      const auto done = run(*options);
      exit_code = done ? 0 : fail(done.error());
    });
    return std::pair(command, options);
  };
  const auto [listed, shown] = add("ls", "List its tensors", "model.gimg --json", &list);
  listed->add_flag("--json", shown->as_json, "One JSON document instead of a table");
  add("verify", "Read it whole: is every bit as it was packed?", "model.gimg", &verify);
  add("estimate", "How long would loading it take? Loads an eighth of it", "model.gimg", &estimate);
  const auto [extracted, wanted] =
      add("extract", "Write its tensors to files", "model.gimg back.safetensors", &extract_tensors);
  extracted
      ->add_option("TO", wanted->to,
                   "A file *.safetensors; a file *.npy for one tensor; or a folder, for a file "
                   "of each tensor's bytes with its name")
      ->type_name("FILE")
      ->required();
  extracted->add_option("--tensor", wanted->names, "Only this one; may be repeated")
      ->type_name("NAME")
      ->repeated();
  image->footer("Example: gantry image verify model.gimg");
}

}  // namespace gantry::cli
