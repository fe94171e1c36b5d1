#include "image/keep/kept_message.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/result.hpp"

namespace gantry::image {

std::vector<std::byte> write_kept(const Image& image) {
  const Tables tables{{image.partitions().begin(), image.partitions().end()},
                      {image.tensors().begin(), image.tensors().end()},
                      {image.chunks().begin(), image.chunks().end()}};
  const std::vector<std::byte> written = write_tables(tables);
  const Superblock block = make_superblock(tables, written, image.file_bytes(), image.digest());
  std::vector<std::byte> bytes(sizeof block + written.size());
  std::memcpy(bytes.data(), &block, sizeof block);
  std::memcpy(bytes.data() + sizeof block, written.data(), written.size());
  return bytes;
}

namespace {

// There is no file to compare its size with: the chunks are not read.
Result<KeptTables> parse(const std::string& name, ConstByteSpan bytes) {
  if (bytes.size() < sizeof(Superblock))
    return fail(Code::invalid_argument, fmt::format("{} bytes of tables", bytes.size()));
  Superblock claimed;
  std::memcpy(&claimed, bytes.data(), sizeof claimed);
  GANTRY_ASSIGN(const Superblock block,
                parse_superblock(name, bytes.first(sizeof claimed), claimed.file_bytes));
  const ConstByteSpan written = bytes.subspan(sizeof block);
  if (written.size() != TableSizes(block).all)
    return fail(Code::invalid_argument, fmt::format("{} bytes of tables", bytes.size()));
  GANTRY_ASSIGN(Tables tables, parse_tables(name, block, written));
  return KeptTables{{block.digest}, std::move(tables)};
}

}  // namespace

Result<KeptTables> parse_kept(const std::string& name, ConstByteSpan bytes) {
  auto parsed = parse(name, bytes);
  if (!parsed)
    return fail(Code::peer_misbehaved, fmt::format("image '{}': {}", name, parsed.error().message),
                "start its keeper anew");
  return parsed;
}

std::vector<std::byte> write_trouble(const Error& why) {
  std::string text = why.message;
  text.append(1, '\0').append(why.hint);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Error parse_trouble(std::uint64_t code, std::string_view text) {
  const auto words = [](std::string_view of) {
    std::string shown(of);
    std::ranges::replace_if(shown, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return shown;
  };
  const std::size_t end = std::min(text.find('\0'), text.size());
  Error why{Code::peer_misbehaved, words(text.substr(0, end)),
            words(text.substr(std::min(end + 1, text.size())))};
  for (const Code one :
       {Code::busy, Code::invalid_argument, Code::not_found, Code::permission_denied,
        Code::out_of_memory, Code::too_large, Code::unsupported, Code::system})
    if (code == static_cast<std::uint64_t>(one)) why.code = one;
  return why;
}

}  // namespace gantry::image
