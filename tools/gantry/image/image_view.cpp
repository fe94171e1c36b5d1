#include "image/image_view.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "channel_view.hpp"
#include "image/tensor_files.hpp"
#include "output.hpp"

namespace gantry::cli {
namespace {

using nlohmann::json;

Bytes raw_bytes(const Image& image) {
  Bytes all = 0;
  for (const ImagePartition& one : image.partitions()) all += one.bytes;
  return all;
}

/// Chunks by how they are packed: "zstd in planes of 2".
std::map<std::string, std::size_t> chunks_by_coding(const Image& image) {
  std::map<std::string, std::size_t> counted;
  for (const ImageChunk& chunk : image.chunks()) {
    std::string how(to_string(chunk.coding.codec));
    if (chunk.coding.plane_bytes > 1)
      how += fmt::format(" in planes of {}", chunk.coding.plane_bytes);
    ++counted[how];
  }
  return counted;
}

const char* plural(std::size_t count) {
  return count == 1 ? "" : "s";
}

json tensor_json(const ImageTensor& tensor) {
  json shape = json::array();
  for (unsigned i = 0; i < tensor.tensor.dimensions; ++i) shape.push_back(tensor.tensor.shape[i]);
  return {{"name", tensor.name},       {"type", type_name(tensor.tensor.type)},
          {"shape", std::move(shape)}, {"partition", tensor.partition},
          {"offset", tensor.offset},   {"bytes", tensor.bytes}};
}

}  // namespace

std::string image_facts(const Image& image) {
  std::string chunks;
  for (const auto& [how, count] : chunks_by_coding(image))
    chunks += fmt::format("{}{} {}", chunks.empty() ? "" : ", ", format_count(count), how);
  return fmt::format(
      "{}: {} tensor{} in {} partition{}, {} in a file of {}; chunks: {}; digest {}\n",
      printable(image.path()), format_count(image.tensors().size()), plural(image.tensors().size()),
      image.partitions().size(), plural(image.partitions().size()), format_bytes(raw_bytes(image)),
      format_bytes(image.file_bytes()), chunks.empty() ? "none" : chunks, image.digest().text());
}

std::string image_verified(const Image& image) {
  Bytes stored = 0;
  for (const ImageChunk& chunk : image.chunks()) stored += chunk.stored_bytes;
  const std::size_t chunks = image.chunks().size();
  return fmt::format(
      "{}: whole: all {} of the file were read: {} chunk{} ({} stored, {} unpacked) by {} "
      "checksum{}, tables and superblock by theirs, zeros between; the content by its digest {}\n",
      printable(image.path()), format_bytes(image.file_bytes()), format_count(chunks),
      plural(chunks), format_bytes(stored), format_bytes(raw_bytes(image)),
      chunks == 1 ? "its" : "their", plural(chunks), image.digest().text());
}

std::string image_table(const Image& image) {
  using enum Table::Align;
  Table table({{"TENSOR", left},
               {"TYPE", left},
               {"SHAPE", left},
               {"PARTITION", right},
               {"OFFSET", right},
               {"BYTES", right}});
  for (const ImageTensor& one : image.tensors())
    table.add({printable(one.name), type_name(one.tensor.type), shape_text(one.tensor),
               std::to_string(one.partition), std::to_string(one.offset),
               std::to_string(one.bytes)});
  return table.text();
}

json image_json(const Image& image, bool with_tensors) {
  json partitions = json::array();
  for (const ImagePartition& one : image.partitions())
    partitions.push_back({{"bytes", one.bytes}, {"chunks", one.chunks}});
  json all = {{"file", image.path()},
              {"digest", image.digest().text()},
              {"file_bytes", image.file_bytes()},
              {"raw_bytes", raw_bytes(image)},
              {"partitions", std::move(partitions)},
              {"chunks", chunks_by_coding(image)}};
  if (!with_tensors) {
    all["tensors"] = image.tensors().size();
    return all;
  }
  all["tensors"] = json::array();
  for (const ImageTensor& one : image.tensors()) all["tensors"].push_back(tensor_json(one));
  return all;
}

}  // namespace gantry::cli
