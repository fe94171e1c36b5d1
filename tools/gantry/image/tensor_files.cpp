#include "image/tensor_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>

#include "errors.hpp"

namespace gantry::cli {
namespace {

struct NamedType {
  std::string_view name;
  DataType type;
};
// What no reshape knows, with the codes of DLPack.
constexpr std::array<NamedType, 10> kMoreTypes{{{"i64", {DataType::signed_int, 64, 1}},
                                                {"u32", {DataType::unsigned_int, 32, 1}},
                                                {"u64", {DataType::unsigned_int, 64, 1}},
                                                {"bool", {6, 8, 1}},
                                                {"c64", {5, 64, 1}},
                                                {"e8m0", {14, 8, 1}},
                                                {"e4m3fnuz", {11, 8, 1}},
                                                {"e5m2fnuz", {13, 8, 1}},
                                                {"e2m3", {15, 6, 1}},
                                                {"e3m2", {16, 6, 1}}}};

Result<DataType> type_named(std::string_view name) {
  for (const NamedType& one : kMoreTypes)
    if (one.name == name) return one.type;
  auto type = parse_type(name);
  if (type) return type;
  type.error().hint += "; here also";
  for (const NamedType& one : kMoreTypes) type.error().hint += fmt::format(" {}", one.name);
  return type;
}

Result<FileFacts> facts_of(const struct stat& facts, const std::string& path) {
  if (!S_ISREG(facts.st_mode)) return refuse(path + ": it is no regular file");
  return FileFacts{static_cast<Bytes>(facts.st_size), facts.st_dev, facts.st_ino,
                   facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
}

tl::unexpected<Error> no_tensor(std::string_view text, std::string_view why) {
  return refuse(fmt::format("'{}': {}", text, why),
                "NAME=TYPE[SHAPE] is wanted, as weights=f32[2,3]");
}

}  // namespace

bool has_ending(std::string_view path, std::string_view ending) noexcept {
  return path.size() >= ending.size() && std::ranges::equal(
                                             path.substr(path.size() - ending.size()), ending, {},
                                             [](unsigned char c) { return std::tolower(c); },
                                             [](unsigned char c) { return std::tolower(c); });
}

Result<std::string> read_part(const std::string& path, Bytes from, Bytes bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return tl::unexpected(system_error(path, errno));
  std::string text(bytes, '\0');
  Bytes at = 0;
  int why = 0;
  while (at < bytes && why == 0) {
    const ssize_t got = ::pread(file, text.data() + at, bytes - at, static_cast<off_t>(from + at));
    if (got == 0) break;
    if (got < 0 && errno != EINTR) why = errno;
    if (got > 0) at += static_cast<Bytes>(got);
  }
  ::close(file);
  if (why != 0) return tl::unexpected(system_error(path, why));
  text.resize(at);
  return text;
}

Result<FileFacts> facts_of_file(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return tl::unexpected(system_error(path, errno));
  return facts_of(facts, path);
}

Result<FileFacts> facts_of_file(int file, const std::string& path) {
  struct stat facts{};
  if (::fstat(file, &facts) != 0) return tl::unexpected(system_error(path, errno));
  return facts_of(facts, path);
}

std::string type_name(DataType type) {
  for (const NamedType& one : kMoreTypes)
    if (one.type == type) return std::string(one.name);
  return to_string(type);
}

std::string shape_text(const Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(std::span(tensor.shape).first(tensor.dimensions), ", "));
}

Result<FileTensor> parse_tensor(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::size_t open = text.rfind('[');
  if (equals == std::string_view::npos) return no_tensor(text, "it has no name");
  if (open == std::string_view::npos || open < equals || !text.ends_with(']'))
    return no_tensor(text, "it has no shape");
  const auto type = type_named(text.substr(equals + 1, open - equals - 1));
  if (!type) return tl::unexpected(type.error());
  std::vector<std::int64_t> shape;
  std::string_view numbers = text.substr(open + 1, text.size() - open - 2);
  while (!numbers.empty()) {
    const std::size_t comma = std::min(numbers.find(','), numbers.size());
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(numbers.data(), numbers.data() + comma, number);
    if (error != std::errc{} || end != numbers.data() + comma || number < 0)
      return no_tensor(text,
                       fmt::format("'{}' is no number of elements", numbers.substr(0, comma)));
    if (comma + 1 == numbers.size()) return no_tensor(text, "its shape ends in a comma");
    shape.push_back(number);
    numbers.remove_prefix(std::min(comma + 1, numbers.size()));
  }
  if (shape.size() > Tensor::kMaxDimensions)
    return refuse(fmt::format("'{}': more than 8 dimensions", text));
  FileTensor tensor{std::string(text.substr(0, equals)), Tensor::dense(*type, shape), {}, {}, 0, 0};
  const auto bytes = dense_bytes(tensor.tensor);
  if (!bytes) return refuse(fmt::format("'{}': {}", text, bytes.error().message));
  tensor.bytes = *bytes;
  return tensor;
}

}  // namespace gantry::cli
