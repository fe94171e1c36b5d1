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
  std::string_view name;  ///< As NumPy writes it.
  DataType type;
  std::string_view others;  ///< What NumPy reads as well, with blanks around each.
};
constexpr std::array<NumpyType, 13> kNumpyTypes{
    {{"|b1", {6, 8, 1}, " ? bool bool8 bool_ "},
     {"|u1", types::u8, " B ubyte uint8 "},
     {"|i1", types::i8, " b byte int8 "},
     {"<u2", types::u16, " H ushort uint16 "},
     {"<i2", types::i16, " h short int16 "},
     {"<f2", types::f16, " e half float16 "},
     {"<u4", {DataType::unsigned_int, 32, 1}, " I uintc uint32 "},
     {"<i4", types::i32, " i intc int32 "},
     {"<f4", types::f32, " f single float32 "},
     {"<u8", {DataType::unsigned_int, 64, 1}, " L N P Q uint uint0 uint64 uintp ulong ulonglong "},
     {"<i8", {DataType::signed_int, 64, 1}, " l n p q int int0 int64 int_ intp long longlong "},
     {"<f8", types::f64, " d double float float64 float_ "},
     {"<c8", {5, 64, 1}, " F csingle singlecomplex complex64 "}}};

/// A byte order stands before codes ("<f4") and letters ("<f"), not before names ("float32").
const NumpyType* find_type(std::string_view descr) {
  const bool has_order = descr.find_first_of("<>=|") == 0;
  const std::string_view word = descr.substr(has_order ? 1 : 0);
  const bool may_be_other = !word.empty() && (word.size() == 1 || !has_order);
  const std::string other = fmt::format(" {} ", word);
  const auto is_it = [&](const NumpyType& one) {
    return one.name.substr(1) == word ||
           (may_be_other && one.others.find(other) != std::string_view::npos);
  };
  const auto* const found = std::ranges::find_if(kNumpyTypes, is_it);
  return found == kNumpyTypes.end() ? nullptr : found;
}

/// Complex numbers that no type here has: complex128 and longer.
bool is_complex(std::string_view descr) {
  const std::string_view word = descr.substr(descr.find_first_of("<>=|") == 0 ? 1 : 0);
  return word == "c16" || word == "c32" || word == "D" || word == "G" ||
         word.starts_with("complex") || word.starts_with("clongdouble");
}

tl::unexpected<Error> no_type(const std::string& path, std::string_view descr) {
  const std::string name = printable(std::string(descr.substr(0, 60)));
  if (find_type(descr) != nullptr)
    return refuse(fmt::format("{}: its numbers ('{}') have their highest byte first", path, name),
                  "save it anew: numpy.save(FILE, a.astype(a.dtype.newbyteorder('<')))");
  if (descr.size() > 1 && descr.find_first_of("<|") == 0 && descr[1] == 'V')
    return refuse(fmt::format("{}: its type '{}' says how many bytes a number has, and nothing "
                              "else; NumPy writes bf16 and fp8 of ml_dtypes so",
                              path, name),
                  "save it as *.safetensors, which has these types, or the bytes alone: "
                  "numpy.save(FILE, a.view('uint8'))");
  if (is_complex(descr))
    return refuse(fmt::format("{}: its complex numbers ('{}') have more than 64 bits", path, name),
                  "save them as complex64: numpy.save(FILE, a.astype('complex64')), or as pairs: "
                  "numpy.save(FILE, a.view('float64'))");
  std::string known;
  for (const NumpyType& one : kNumpyTypes) known += fmt::format(" {}", one.name.substr(1));
  return refuse(fmt::format("{}: its type '{}' is unknown", path, name),
                fmt::format("save it anew as one of{}", known));
}

/// Reads the dictionary of such a file: literals of Python, of version 2, too.
class Dictionary {
 public:
  std::optional<std::string_view> descr;
  std::optional<bool> is_fortran;
  std::optional<std::vector<std::int64_t>> shape;

  explicit Dictionary(std::string_view text) : rest_(text) {}
  /// False: it is none, or has other keys than these three.
  [[nodiscard]] bool read() {
    if (!skip("{")) return false;
    while (!skip("}")) {
      const auto key = string();
      if (!key || !skip(":") || !value(*key)) return false;
      if (skip("}")) break;
      if (!skip(",")) return false;
    }
    skip("");
    return rest_.empty() && descr && is_fortran && shape;
  }

 private:
  /// Blanks, then `word` if it is there.
  bool skip(std::string_view word) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n\f"), rest_.size()));
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::optional<std::string_view> string() {
    if (!skip("u")) skip("b");  // as versions of Python write it
    const char quote = rest_.empty() ? '\0' : rest_.front();
    const std::size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : rest_.npos;
    if (end == rest_.npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    if (text.find('\\') != text.npos) return std::nullopt;
    return text;
  }

  bool value(std::string_view key) {
    if (key == "descr") return (descr = string()).has_value();
    if (key == "shape") return (shape = tuple()).has_value();
    if (key != "fortran_order") return false;
    is_fortran = skip("True");
    return *is_fortran || skip("False");
  }

  std::optional<std::vector<std::int64_t>> tuple() {
    std::vector<std::int64_t> numbers;
    bool has_comma = true;
    if (!skip("(")) return std::nullopt;
    while (!skip(")")) {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
      if (!has_comma || error != std::errc{} || number < 0) return std::nullopt;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      if (!rest_.empty() && (rest_.front() | 0x20) == 'l') rest_.remove_prefix(1);  // 3L
      numbers.push_back(number);
      has_comma = skip(",");
    }
    if (numbers.size() == 1 && !has_comma) return std::nullopt;  // (3) is a number
    return numbers;
  }

  std::string_view rest_;
};

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
  if (text->size() != bytes)
    return refuse(
        fmt::format("{}: its header has {} bytes of {}: it was cut off", path, text->size(), bytes),
        "copy it again");
  return NumpyHeader{std::move(*text), at + bytes};
}

}  // namespace

Result<FileTensor> read_npy(const std::string& path) {
  const auto file = facts_of_file(path);
  if (!file) return tl::unexpected(file.error());
  const auto header = read_numpy_header(path);
  if (!header) return tl::unexpected(header.error());
  Dictionary says(header->text);
  if (!says.read())
    return refuse(fmt::format("{}: its header '{}' does not say one type of numbers, their order "
                              "and a shape",
                              path, printable(header->text.substr(0, 100))),
                  "save an array of numbers without fields: numpy.save(FILE, a)");
  const NumpyType* const type = find_type(*says.descr);
  const bool is_swapped = type != nullptr && says.descr->starts_with('>') && type->type.bits > 8;
  if (type == nullptr || is_swapped) return no_type(path, *says.descr);
  const auto shape = &*says.shape;
  if (shape->size() > Tensor::kMaxDimensions)
    return refuse(fmt::format("{}: it has {} dimensions, of at most 8", path, shape->size()),
                  "save it anew: numpy.save(FILE, a.reshape(SHAPE))");
  const auto is_long = [](std::int64_t one) { return one > 1; };
  if (*says.is_fortran && std::ranges::count_if(*shape, is_long) > 1 &&
      std::ranges::find(*shape, 0) == shape->end())
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
  const Bytes data = file->bytes - std::min(header->end, file->bytes);
  const bool is_cut = data < *bytes || header->end > file->bytes;
  if (is_cut || *bytes != data)
    return refuse(
        fmt::format("{}: {} of {} has {} bytes, the file {}{}", path, shape_text(tensor.tensor),
                    type_name(type->type), *bytes, data, is_cut ? ": it was cut off" : ""),
        is_cut ? "copy it again" : "copy or save it again");
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
