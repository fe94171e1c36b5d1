// Files and indices of safetensors: https://huggingface.co/docs/safetensors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "channel_view.hpp"
#include "image/tensor_files.hpp"
#include "tools/command_line/json_text.hpp"

namespace gantry::cli {
namespace {

using nlohmann::json;
constexpr Bytes kMostHeader = 100'000'000;  // as their own library has it
constexpr int kMostDepth = 64;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kStale =
    "index and files are not of one version: fetch both anew, or name the *.safetensors instead";

struct TypeName {
  std::string_view name;
  DataType type;
};
constexpr std::array<TypeName, 22> kTypes{{{"BOOL", {6, 8, 1}},
                                           {"U8", types::u8},
                                           {"I8", types::i8},
                                           {"F8_E5M2", types::e5m2},
                                           {"F8_E4M3", types::e4m3fn},
                                           {"F8_E8M0", {14, 8, 1}},
                                           {"U16", types::u16},
                                           {"I16", types::i16},
                                           {"F16", types::f16},
                                           {"BF16", types::bf16},
                                           {"U32", {DataType::unsigned_int, 32, 1}},
                                           {"I32", types::i32},
                                           {"F32", types::f32},
                                           {"C64", {5, 64, 1}},
                                           {"F64", types::f64},
                                           {"U64", {DataType::unsigned_int, 64, 1}},
                                           {"I64", {DataType::signed_int, 64, 1}},
                                           {"F4", types::e2m1},
                                           {"F6_E2M3", {15, 6, 1}},
                                           {"F6_E3M2", {16, 6, 1}},
                                           {"F8_E4M3FNUZ", {11, 8, 1}},
                                           {"F8_E5M2FNUZ", {13, 8, 1}}}};

bool is_utf8(const std::string& name) {
  try {
    static_cast<void>(json(name).dump());
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

/// What json::parse() lets pass: a key twice in the object of the first level, and arrays and
/// objects within each other deeper than kMostDepth, which need a stack for whatever walks them.
/// (json::parse() with a callback takes time that grows with the square of the keys.)
class Scan final : public json::json_sax_t {
 public:
  std::string twice;
  bool is_too_deep = false;

  bool key(std::string& name) override {
    if (depth_ == 1 && !keys_.insert(name).second) twice = name;
    return true;
  }
  bool start_object(std::size_t) override { return begin(); }
  bool start_array(std::size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool begin() noexcept {
    is_too_deep = ++depth_ > kMostDepth;
    return !is_too_deep;
  }
  bool end() noexcept {
    --depth_;
    return true;
  }
  int depth_ = 0;
  std::unordered_set<std::string> keys_;
};

/// JSON in which no object of the first level has a key twice.
Result<json> parse_object(const std::string& path, const std::string& text) {
  Scan scan;
  json::sax_parse(text, &scan);
  if (scan.is_too_deep)
    return refuse(fmt::format("{}: its JSON is more than {} levels deep", path, kMostDepth),
                  "a header of safetensors has three");
  try {
    json object = json::parse(text);
    if (!object.is_object()) return refuse(path + ": its header is no JSON object");
    if (!scan.twice.empty())
      return refuse(fmt::format("{}: tensor '{}' is there twice", path, printable(scan.twice)));
    return object;
  } catch (const json::parse_error& error) {
    return refuse(fmt::format("{}: it is not JSON from byte {} on", path, error.byte),
                  "it was cut off or damaged: copy it again");
  } catch (const json::exception&) {
    return refuse(path + ": it has a number that is beyond JSON's", "save it again");
  }
}

constexpr std::size_t kMostShown = 60;  // letters of what a file says

std::string place_of(const std::string& path, const std::string& name) {
  return fmt::format("{}: tensor '{}'", path, printable(name.substr(0, kMostShown)));
}

Result<std::vector<std::int64_t>> read_shape(const std::string& place, const json& entry) {
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array()) return refuse(place + ": it has no shape");
  if (shape->size() > Tensor::kMaxDimensions)
    return refuse(fmt::format("{}: {} dimensions are more than 8", place, shape->size()));
  std::vector<std::int64_t> numbers;
  for (const json& one : *shape) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > kMost)
      return refuse(fmt::format("{}: '{}' is no number of elements", place,
                                printable(json_text(one).substr(0, kMostShown))));
    numbers.push_back(one.get<std::int64_t>());
  }
  return numbers;
}

tl::unexpected<Error> no_type(const std::string& place, const std::string& dtype) {
  std::string known;
  for (const TypeName& one : kTypes) known += fmt::format(" {}", one.name);
  return refuse(
      fmt::format("{}: its type '{}' is unknown", place, printable(dtype.substr(0, kMostShown))),
      fmt::format("save it as one of{}", known));
}

Result<FileTensor> read_entry(const std::string& path, const std::string& name, const json& entry,
                              const FileFacts& file, Bytes data) {
  const std::string place = place_of(path, name);
  if (!entry.is_object()) return refuse(place + ": it is no JSON object");
  const std::string dtype = entry.contains("dtype") && entry["dtype"].is_string()
                                ? entry["dtype"].get<std::string>()
                                : std::string();
  const auto* const type = std::ranges::find(kTypes, dtype, &TypeName::name);
  if (type == kTypes.end()) return no_type(place, dtype);
  const auto shape = read_shape(place, entry);
  if (!shape) return tl::unexpected(shape.error());
  FileTensor tensor{name, Tensor::dense(type->type, *shape), path, file, 0, 0};
  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned())
    return refuse(place + ": it has no data_offsets");
  const auto from = (*offsets)[0].get<Bytes>(), to = (*offsets)[1].get<Bytes>();
  if (from <= to && to > file.bytes - data)
    return refuse(fmt::format("{}: bytes {} to {}, of {}: it was cut off", place, from, to,
                              file.bytes - data),
                  "copy it again");
  if (from > to) return refuse(fmt::format("{}: bytes {} to {}", place, from, to), "save it again");
  const auto bytes = dense_bytes(tensor.tensor);
  if (!bytes) return refuse(fmt::format("{}: {}", place, bytes.error().message));
  if (*bytes != to - from)
    return refuse(fmt::format("{}: {} of {} has {} bytes, not {}", place, shape_text(tensor.tensor),
                              dtype, *bytes, to - from));
  tensor.offset = data + from;
  tensor.bytes = *bytes;
  return tensor;
}

// Without gaps and overlaps, as the format demands: nothing in the file is left out.
Result<void> check_order(const std::string& path, std::vector<FileTensor>& tensors, Bytes data,
                         Bytes end) {
  std::ranges::sort(tensors, {}, [](const FileTensor& one) {
    return std::tuple(one.offset, one.bytes, one.name);
  });
  Bytes at = data;
  for (const FileTensor& one : tensors) {
    if (one.offset != at)
      return refuse(fmt::format("{}: it begins at {}; what is before it ends at {}",
                                place_of(path, one.name), one.offset, at),
                    "save it again: nothing lies between tensors of safetensors");
    at += one.bytes;
  }
  if (at == end) return {};
  return refuse(fmt::format("{}: its tensors end at {}, the file at {}", path, at, end),
                "copy or save it again, without what follows its tensors");
}

Result<std::string> read_header(const std::string& path, Bytes file_bytes) {
  auto size = read_part(path, 0, sizeof(std::uint64_t));
  if (!size) return size;
  if (size->size() != sizeof(std::uint64_t))
    return refuse(fmt::format("{}: {} bytes are no safetensors, which begin with {} bytes", path,
                              file_bytes, sizeof(std::uint64_t)),
                  "it is no safetensors file, or was cut off: copy it again");
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, size->data(), sizeof bytes);
  if (bytes > file_bytes - sizeof bytes)
    return refuse(fmt::format("{}: a header of {} bytes is longer than the file, which has {}",
                              path, bytes, file_bytes),
                  "it is no safetensors file, or was cut off: copy it again");
  if (bytes > kMostHeader)
    return refuse(fmt::format("{}: a header of {} bytes, of at most {}", path, bytes, kMostHeader));
  auto header = read_part(path, sizeof bytes, bytes);
  if (header && header->size() != bytes) return refuse(path + ": it was cut off meanwhile");
  return header;
}

}  // namespace

Result<std::vector<FileTensor>> read_safetensors(const std::string& path) {
  const auto file = facts_of_file(path);
  if (!file) return tl::unexpected(file.error());
  const auto header = read_header(path, file->bytes);
  if (!header) return tl::unexpected(header.error());
  const auto object = parse_object(path, *header);
  if (!object) return tl::unexpected(object.error());
  const Bytes data = sizeof(std::uint64_t) + header->size();
  std::vector<FileTensor> tensors;
  for (const auto& [name, entry] : object->items()) {
    if (name == kMetadata) continue;
    auto tensor = read_entry(path, name, entry, *file, data);
    if (!tensor) return tl::unexpected(tensor.error());
    tensors.push_back(std::move(*tensor));
  }
  if (auto fine = check_order(path, tensors, data, file->bytes); !fine)
    return tl::unexpected(fine.error());
  return tensors;
}

Result<std::vector<FileTensor>> read_safetensors_index(const std::string& path) {
  const auto facts = facts_of_file(path);
  if (!facts) return tl::unexpected(facts.error());
  if (facts->bytes > kMostHeader)
    return refuse(fmt::format("{}: {} bytes are no index", path, facts->bytes));
  const auto text = read_part(path, 0, facts->bytes);
  if (!text) return tl::unexpected(text.error());
  const auto object = parse_object(path, *text);
  if (!object) return tl::unexpected(object.error());
  const auto map = object->find("weight_map");
  if (map == object->end() || !map->is_object()) return refuse(path + ": it has no weight_map");
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [name, file] : map->items()) {
    const std::string in = file.is_string() ? file.get<std::string>() : std::string();
    if (in.empty() || in.find('/') != std::string::npos)
      return refuse(place_of(path, name) + ": it is in no file of this folder");
    files[in].insert(name);
  }
  std::vector<FileTensor> all;
  const auto folder = std::filesystem::path(path).parent_path();
  for (auto& [file, names] : files) {
    const std::string in = (folder / file).string();
    if (std::error_code unknown; !std::filesystem::exists(in, unknown) && !unknown)
      return refuse(fmt::format("{}: it names {}, which is not there", path, printable(file)),
                    kStale, Code::not_found);
    if (auto fine = check_is_no_pointer(in); !fine) return tl::unexpected(fine.error());
    auto tensors = read_safetensors(in);
    if (!tensors) return tensors;
    for (FileTensor& one : *tensors) {
      if (names.erase(one.name) == 0)
        return refuse(fmt::format("{}: it is in {}, and not in the index", place_of(path, one.name),
                                  printable(file)),
                      kStale);
      all.push_back(std::move(one));
    }
    if (!names.empty())
      return refuse(
          fmt::format("{}: it is not in {}", place_of(path, *names.begin()), printable(file)),
          kStale);
  }
  return all;
}

Result<std::string> safetensors_header(std::span<const ImageTensor* const> tensors) {
  std::string text = "{";
  Bytes at = 0;
  for (const ImageTensor* const one : tensors) {
    if (one->name == kMetadata || !is_utf8(one->name))
      return refuse(
          fmt::format("tensor '{}': safetensors files cannot have that name", printable(one->name)),
          "extract into a folder");
    const auto* const type = std::ranges::find(kTypes, one->tensor.type, &TypeName::type);
    if (type == kTypes.end())
      return refuse(fmt::format("tensor '{}': safetensors files have no {}", printable(one->name),
                                type_name(one->tensor.type)),
                    "extract into a folder");
    const nlohmann::ordered_json entry = {
        {"dtype", type->name},
        {"shape", std::span(one->tensor.shape).first(one->tensor.dimensions)},
        {"data_offsets", {at, at + one->bytes}}};
    text +=
        fmt::format("{}{}:{}", text.size() == 1 ? "" : ",", json(one->name).dump(), entry.dump());
    at += one->bytes;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t bytes = text.size();
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) + text;
}

}  // namespace gantry::cli
