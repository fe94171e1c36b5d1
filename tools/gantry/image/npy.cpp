// Files of numpy's: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "channel_view.hpp"
#include "image/tensor_files.hpp"

namespace gantry::cli {
namespace {

constexpr std::string_view kNumpyMagic("\x93NUMPY", 6);
constexpr Bytes kMostNumpyHeader = 65'536;  // of version 1, and more than eight dimensions need

struct NumpyType {
  std::string_view name;
  DataType type;
};
constexpr std::array<NumpyType, 13> kNumpyTypes{{{"|b1", {6, 8, 1}},
                                                 {"|u1", types::u8},
                                                 {"|i1", types::i8},
                                                 {"<u2", types::u16},
                                                 {"<i2", types::i16},
                                                 {"<f2", types::f16},
                                                 {"<u4", {DataType::unsigned_int, 32, 1}},
                                                 {"<i4", types::i32},
                                                 {"<f4", types::f32},
                                                 {"<u8", {DataType::unsigned_int, 64, 1}},
                                                 {"<i8", {DataType::signed_int, 64, 1}},
                                                 {"<f8", types::f64},
                                                 {"<c8", {5, 64, 1}}}};

tl::unexpected<Error> no_type(const std::string& path, std::string_view descr) {
  const std::string name = printable(std::string(descr));
  if (descr.starts_with('>'))
    return refuse(fmt::format("{}: its numbers ('{}') have their highest byte first", path, name),
                  "save it anew: numpy.save(FILE, a.astype(a.dtype.newbyteorder('<')))");
  std::string known;
  for (const NumpyType& one : kNumpyTypes) known += fmt::format(" {}", one.name.substr(1));
  return refuse(fmt::format("{}: its type '{}' is unknown", path, name),
                fmt::format("save it anew as one of{}", known));
}

/// What stands behind 'key': in the text of a dictionary, up to `end`; empty: nothing.
std::string_view value_of(std::string_view header, std::string_view key, char end) {
  const std::string name = fmt::format("'{}':", key);
  const std::size_t at = header.find(name);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + name.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  const std::size_t last = header.find(end, 1);
  return last == std::string_view::npos ? std::string_view() : header.substr(0, last);
}

/// "(2, 3" as value_of() gives it.
std::optional<std::vector<std::int64_t>> shape_of(std::string_view text) {
  if (!text.starts_with('(')) return std::nullopt;
  text.remove_prefix(1);
  std::vector<std::int64_t> shape;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (word.empty() && text.empty()) break;  // (3,)
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || end != word.data() + word.size() || number < 0) return std::nullopt;
    shape.push_back(number);
  }
  return shape;
}

/// The dictionary, and where the numbers begin.
struct NumpyHeader {
  std::string text;
  Bytes end = 0;
};
Result<NumpyHeader> read_numpy_header(const std::string& path) {
  const auto start = read_part(path, 0, 12);
  if (!start) return tl::unexpected(start.error());
  const auto byte = [&](std::size_t i) { return Bytes{static_cast<unsigned char>((*start)[i])}; };
  if (start->size() < 12 || !start->starts_with(kNumpyMagic) || byte(6) < 1 || byte(6) > 3)
    return refuse(path + ": it is no file of numpy's");
  const bool is_first = byte(6) == 1;
  const Bytes at = is_first ? 10 : 12;
  const Bytes bytes = byte(8) | byte(9) << 8 | (is_first ? 0 : byte(10) << 16 | byte(11) << 24);
  if (bytes > kMostNumpyHeader) return refuse(fmt::format("{}: a header of {} bytes", path, bytes));
  auto text = read_part(path, at, bytes);
  if (!text) return tl::unexpected(text.error());
  if (text->size() != bytes) return refuse(path + ": it was cut off");
  return NumpyHeader{std::move(*text), at + bytes};
}

}  // namespace

Result<FileTensor> read_npy(const std::string& path) {
  const auto file = facts_of_file(path);
  if (!file) return tl::unexpected(file.error());
  const auto header = read_numpy_header(path);
  if (!header) return tl::unexpected(header.error());
  const std::string_view descr = value_of(header->text, "descr", '\'');
  const std::string_view name = descr.empty() ? descr : descr.substr(1);
  const auto* const type = std::ranges::find(kNumpyTypes, name, &NumpyType::name);
  if (type == kNumpyTypes.end()) return no_type(path, name);
  const auto shape = shape_of(value_of(header->text, "shape", ')'));
  if (!shape || shape->size() > Tensor::kMaxDimensions)
    return refuse(path + ": it has no shape of at most 8 dimensions");
  if (value_of(header->text, "fortran_order", ',') != "False" && shape->size() > 1)
    return refuse(path + ": its first dimension runs the quickest",
                  "save it anew: numpy.save(FILE, numpy.ascontiguousarray(a))");
  FileTensor tensor{std::filesystem::path(path).stem().string(),
                    Tensor::dense(type->type, *shape),
                    path,
                    *file,
                    header->end,
                    0};
  const auto bytes = dense_bytes(tensor.tensor);
  if (!bytes) return refuse(fmt::format("{}: {}", path, bytes.error().message));
  if (header->end > file->bytes || *bytes != file->bytes - header->end)
    return refuse(fmt::format("{}: {} of {} has {} bytes, the file {}", path,
                              shape_text(tensor.tensor), type_name(type->type), *bytes,
                              file->bytes - header->end));
  tensor.bytes = *bytes;
  return tensor;
}

Result<std::string> npy_header(const ImageTensor& tensor) {
  const auto* const type = std::ranges::find(kNumpyTypes, tensor.tensor.type, &NumpyType::type);
  if (type == kNumpyTypes.end())
    return refuse(fmt::format("tensor '{}': numpy has no {}", printable(tensor.name),
                              type_name(tensor.tensor.type)),
                  "extract to a file *.safetensors or into a folder");
  std::string shape;
  for (unsigned i = 0; i < tensor.tensor.dimensions; ++i)
    shape += fmt::format("{}{}", i == 0 ? "" : ", ", tensor.tensor.shape[i]);
  if (tensor.tensor.dimensions == 1) shape += ",";
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type->name, shape);
  constexpr Bytes kBefore = 10, kBorder = 64;
  const Bytes all = (kBefore + text.size() + 1 + kBorder - 1) / kBorder * kBorder;
  text.resize(all - kBefore - 1, ' ');
  text += '\n';
  return fmt::format("{}{}{}{}{}{}", kNumpyMagic, '\1', '\0', static_cast<char>(text.size() & 0xff),
                     static_cast<char>(text.size() >> 8), text);
}

}  // namespace gantry::cli
