#include "run/file/images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <gantry/channel.hpp>

#include "run/file/settings.hpp"

namespace gantry::run {
namespace {

constexpr const char* kImages = "images";

Result<ImageFile> read_image(const Source& source, const Entry& entry,
                             const std::vector<Setting>& settings) {
  const std::string name = fmt::format("{}.{}", kImages, entry.key);
  const Fields fields(source, name, entry.at, entry.value);
  if (entry.value.kind != Node::Kind::table)
    return tl::unexpected(
        Fields(source, kImages, entry.at, entry.value).wrong_type(entry, "a table"));
  if (const auto fine = check_channel_name(entry.key); !fine)
    return tl::unexpected(
        source.error(entry.at, name, "is no name for an image", to_string(fine.error())));
  if (Mistakes unknown; !fields.allow_only({"file"}, unknown))
    return tl::unexpected(unknown.all().front());
  if (fields.find("file") == nullptr)
    return tl::unexpected(fields.missing("file", "write file = \"./model.gimg\""));
  const Result<Text> text = fields.text("file");
  if (!text) return tl::unexpected(text.error());
  auto file = fill_in(source, name + ".file", *text, settings);
  if (!file) return tl::unexpected(file.error());
  if (file->starts_with("./") || file->starts_with("../")) *file = source.folder + "/" + *file;
  return ImageFile{entry.key, text->at, std::move(*file)};
}

bool is_link_of(const Pipeline& pipeline, const Channel& channel, const std::string& name) {
  for (unsigned from = 0; from < pipeline.stages[channel.from].replicas; ++from)
    for (unsigned to = 0; to < pipeline.stages[channel.to].replicas; ++to)
      if (link_name(channel.name, from, to) == name) return true;
  return channel.name == name;
}

}  // namespace

std::vector<ImageFile> read_images(const Source& source, const Fields& file,
                                   const std::vector<Setting>& settings, Mistakes& mistakes) {
  std::vector<ImageFile> images;
  const Result<const Entry*> table = file.find(kImages, Node::Kind::table);
  if (!mistakes.note(table) || *table == nullptr) return images;
  for (const Entry& entry : (*table)->value.entries) {
    Result<ImageFile> image = read_image(source, entry, settings);
    if (mistakes.note(image)) images.push_back(std::move(*image));
  }
  return images;
}

Result<void> check_images(const Pipeline& pipeline) {
  for (const ImageFile& image : pipeline.images)
    for (const Channel& channel : pipeline.channels)
      if (is_link_of(pipeline, channel, image.name))
        return tl::unexpected(pipeline.source.error(
            image.at, fmt::format("{}.{}", kImages, image.name),
            fmt::format("has the name of a link of channel '{}'", channel.name),
            "give one of them another name"));
  return {};
}

}  // namespace gantry::run
