#include "image/keep/kept_message.hpp"

#include <cstring>

#include "base/result.hpp"

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

}  // namespace gantry::image
