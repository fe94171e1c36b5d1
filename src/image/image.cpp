#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <gantry/image.hpp>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "core/base/crc32c.hpp"
#include "core/base/os/fd.hpp"
#include "core/base/result.hpp"
#include "image/codec/codec.hpp"
#include "image/digest.hpp"
#include "image/tables.hpp"
#include "image/unpack_chunk.hpp"

namespace gantry {
namespace {

Result<Bytes> size_of(const Fd& file, const std::string& path) {
  struct stat facts{};
  if (::fstat(file.get(), &facts) != 0) return fail_errno(path);
  if (!S_ISREG(facts.st_mode))
    return fail(Code::invalid_argument, path + ": it is no regular file");
  return static_cast<Bytes>(facts.st_size);
}

}  // namespace

struct GANTRY_LOCAL Image::State {
  std::string path;
  Fd file;
  image::Superblock block;
  ImageDigest digest;
  image::Tables tables;
  std::vector<std::byte> content;  // the tables that the digest goes over
  std::unordered_map<std::string_view, std::size_t> by_name;

  codec::Decoder decoder;
  std::vector<std::byte> stored;  // of a chunk that is packed
  std::vector<std::byte> kept;    // the chunk with the next number, unpacked
  std::optional<std::size_t> kept_chunk;

  /// `what` is what the bytes are of.
  Result<void> read_at(Bytes offset, ByteSpan into, const std::string& what) const {
    while (!into.empty()) {
      const ssize_t got = ::pread(file.get(), into.data(), into.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail_errno(fmt::format("{}: byte {}", what, offset));
      if (got == 0)
        return fail(Code::invalid_argument,
                    fmt::format("{}: the file ends at {}: it was cut off meanwhile", what, offset));
      offset += static_cast<Bytes>(got);
      into = into.subspan(static_cast<Bytes>(got));
    }
    return {};
  }

  Result<void> read_tables() {
    GANTRY_ASSIGN(const Bytes file_bytes, size_of(file, path));
    if (file_bytes < sizeof(image::Superblock))
      return fail(Code::invalid_argument,
                  fmt::format("{}: it is no image: it has {} bytes, an image {} at least", path,
                              file_bytes, sizeof(image::Superblock)),
                  "gantry pack makes one");
    std::vector<std::byte> bytes(sizeof(image::Superblock));
    GANTRY_TRY(read_at(0, bytes, path));
    GANTRY_ASSIGN(block, image::parse_superblock(path, bytes, file_bytes));
    digest.bytes = block.digest;
    const image::TableSizes sizes(block);
    bytes.resize(sizes.all);
    GANTRY_TRY(read_at(kImageBorder, bytes, path));
    GANTRY_ASSIGN(tables, image::parse_tables(path, block, bytes));
    bytes.resize(sizes.content);
    content = std::move(bytes);
    by_name.reserve(tables.tensors.size());
    for (std::size_t i = 0; i < tables.tensors.size(); ++i) by_name[tables.tensors[i].name] = i;
    return {};
  }

  Result<void> read_chunk(std::size_t index, ByteSpan raw) {
    const ImageChunk& chunk = tables.chunks[index];
    ByteSpan from = raw;
    if (chunk.coding.codec != Codec::none) {
      stored.resize(std::max<Bytes>(stored.size(), chunk.stored_bytes));
      from = ByteSpan(stored).first(chunk.stored_bytes);
    }
    GANTRY_TRY(read_at(chunk.offset, from, image::chunk_place(path, index, chunk.offset)));
    return image::unpack_chunk(decoder, path, index, chunk, from, raw);
  }

  Result<ConstByteSpan> keep_chunk(std::size_t index) {
    const Bytes bytes = tables.chunks[index].raw_bytes;
    if (kept_chunk != index) {
      kept_chunk.reset();
      kept.resize(std::max(kept.size(), bytes));
      GANTRY_TRY(read_chunk(index, ByteSpan(kept).first(bytes)));
      kept_chunk = index;
    }
    return ConstByteSpan(kept).first(bytes);
  }

  // Between what is stored.
  Result<void> check_nothing(Bytes from, Bytes to) const {
    std::array<std::byte, kImageBorder> bytes{};
    const ByteSpan gap = ByteSpan(bytes).first(to - from);
    GANTRY_TRY(read_at(from, gap, path));
    const auto something = std::ranges::find_if(gap, [](std::byte b) { return b != std::byte{0}; });
    if (something == gap.end()) return {};
    return fail(Code::invalid_argument,
                fmt::format("{}: byte {} is not 0, where nothing is stored", path,
                            from + static_cast<Bytes>(something - gap.begin())),
                "copy it again from where it came, or pack it anew");
  }

  Result<void> verify() {
    image::ContentHash hash;
    Bytes end = kImageBorder + image::TableSizes(block).all;
    for (std::size_t i = 0; i < tables.chunks.size(); ++i) {
      GANTRY_TRY(check_nothing(end, tables.chunks[i].offset));
      GANTRY_ASSIGN(const ConstByteSpan raw, keep_chunk(i));
      hash.add(raw);
      end = tables.chunks[i].offset + tables.chunks[i].stored_bytes;
    }
    GANTRY_TRY(check_nothing(end, block.file_bytes));
    const ImageDigest found = hash.finish(content);
    if (found == digest) return {};
    return fail(Code::invalid_argument, fmt::format("{}: its content's digest is {}, not {}", path,
                                                    found.text(), digest.text()));
  }
};

Image::Image(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Image::Image(Image&&) noexcept = default;
Image& Image::operator=(Image&&) noexcept = default;
Image::~Image() = default;

Result<Image> Image::open(const std::string& path) {
  return guarded([&]() -> Result<Image> {
    auto state = std::make_unique<State>();
    state->path = path;
    // What is no file is refused; nobody waits for the other end of a FIFO.
    state->file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!state->file) return fail_errno(path);
    GANTRY_TRY(state->read_tables());
    return Image(std::move(state));
  });
}

int Image::descriptor() const noexcept {
  return state_->file.get();
}
const std::string& Image::path() const noexcept {
  return state_->path;
}
Bytes Image::file_bytes() const noexcept {
  return state_->block.file_bytes;
}
const ImageDigest& Image::digest() const noexcept {
  return state_->digest;
}
std::span<const ImageTensor> Image::tensors() const noexcept {
  return state_->tables.tensors;
}
std::span<const ImagePartition> Image::partitions() const noexcept {
  return state_->tables.partitions;
}
std::span<const ImageChunk> Image::chunks() const noexcept {
  return state_->tables.chunks;
}

const ImageTensor* Image::find(std::string_view name) const noexcept {
  const auto found = state_->by_name.find(name);
  return found == state_->by_name.end() ? nullptr : &state_->tables.tensors[found->second];
}

Result<void> Image::read(const ImageTensor& tensor, ByteSpan into) {
  if (into.size() != tensor.bytes)
    return fail(Code::invalid_argument,
                fmt::format("{}: tensor '{}' has {} bytes; there is room for {}", state_->path,
                            tensor.name, tensor.bytes, into.size()));
  return read(tensor.partition, tensor.offset, into);
}

Result<void> Image::read(std::size_t partition, Bytes from, ByteSpan into) {
  if (partition >= state_->tables.partitions.size())
    return fail(Code::invalid_argument,
                fmt::format("{}: there is no partition {}", state_->path, partition));
  const ImagePartition& whole = state_->tables.partitions[partition];
  if (from > whole.bytes || into.size() > whole.bytes - from)
    return fail(Code::invalid_argument,
                fmt::format("{}: bytes {} and {} more of partition {}, which has {}", state_->path,
                            from, into.size(), partition, whole.bytes));
  return guarded([&]() -> Result<void> {
    while (!into.empty()) {
      const std::size_t index = whole.first_chunk + from / kImageChunkBytes;
      const Bytes skipped = from % kImageChunkBytes;
      const Bytes all = state_->tables.chunks[index].raw_bytes;
      const Bytes bytes = std::min(into.size(), all - skipped);
      if (bytes == all && state_->kept_chunk != index) {
        GANTRY_TRY(state_->read_chunk(index, into.first(bytes)));
      } else {
        GANTRY_ASSIGN(const ConstByteSpan raw, state_->keep_chunk(index));
        std::memcpy(into.data(), raw.data() + skipped, bytes);
      }
      from += bytes;
      into = into.subspan(bytes);
    }
    return {};
  });
}

Result<void> Image::verify() {
  return guarded([&] {
    state_->kept_chunk.reset();  // the file as it is now
    return state_->verify();
  });
}

std::vector<EngineStatus> list_codecs() {
  std::vector<EngineStatus> statuses;
  for (const Codec codec : {Codec::lz4, Codec::zstd, Codec::deflate}) {
    const auto made = codec::make_codec(codec);
    statuses.push_back({std::string(to_string(codec)), made.has_value(),
                        made ? (*made)->library() : made.error().message,
                        made ? "" : made.error().hint});
  }
  return statuses;
}

}  // namespace gantry
