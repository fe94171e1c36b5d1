// Images that may be anything: refused in one line that names the image, or what is read of them is
// the same twice, and within what the tables say. CRCs are made right, so that what is behind them
// is met. And streams of codecs, which unpack to the bytes that were asked for or to an error.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/base/crc32c.hpp"
#include "core/base/os/fd.hpp"
#include "fuzz/input.hpp"
#include "image/codec/codec.hpp"
#include "image/tables.hpp"

namespace {

using namespace gantry;
using Data = std::vector<std::byte>;

constexpr Bytes kMost = Bytes{1} << 16;  // of a file, and of what is read

/// With the CRCs of the superblock, of the tables and of stored bytes as a reader wants them.
void seal(Data& image) {
  image::Superblock block;
  if (image.size() < sizeof block) return;
  std::memcpy(&block, image.data(), sizeof block);
  const Bytes tables = std::min<Bytes>(block.tables_bytes, image.size() - sizeof block);
  const Bytes chunks = image::TableSizes(block).content;
  for (Bytes at = chunks; at + sizeof(image::ChunkEntry) <= tables;
       at += sizeof(image::ChunkEntry)) {
    image::ChunkEntry entry;
    std::memcpy(&entry, image.data() + sizeof block + at, sizeof entry);
    if (entry.offset > image.size() || entry.stored_bytes > image.size() - entry.offset) break;
    entry.stored_crc32c = crc32c(ConstByteSpan(image).subspan(entry.offset, entry.stored_bytes));
    if (entry.codec == 0) entry.raw_crc32c = entry.stored_crc32c;
    std::memcpy(image.data() + sizeof block + at, &entry, sizeof entry);
  }
  block.tables_crc32c = crc32c(ConstByteSpan(image).subspan(sizeof block, tables));
  block.crc32c =
      crc32c(std::as_bytes(std::span(&block, 1)).first(offsetof(image::Superblock, crc32c)));
  std::memcpy(image.data(), &block, sizeof block);
}

void require_one_line(const Error& error) {
  fuzz::require(!error.message.empty() && error.message.find('\n') == std::string::npos);
}

void read_all(Image& image) {
  Bytes chunks = 0;
  for (const ImageChunk& chunk : image.chunks()) {
    fuzz::require(chunk.offset + chunk.stored_bytes <= image.file_bytes());
    fuzz::require(chunk.raw_bytes <= kImageChunkBytes && chunk.stored_bytes <= chunk.raw_bytes);
    chunks += chunk.raw_bytes;
  }
  for (const ImagePartition& one : image.partitions()) chunks -= one.bytes;
  fuzz::require(chunks == 0);
  for (const ImageTensor& tensor : image.tensors()) {
    const ImagePartition& whole = image.partitions()[tensor.partition];
    fuzz::require(tensor.offset <= whole.bytes && tensor.bytes <= whole.bytes - tensor.offset);
    fuzz::require(image.find(tensor.name) == &tensor);
    if (tensor.bytes > kMost) continue;
    Data one(tensor.bytes), other(tensor.bytes);
    const auto read = image.read(tensor, one);
    fuzz::require(image.read(tensor, other).has_value() == read.has_value());
    if (read) {
      fuzz::require(one == other);
    } else {
      require_one_line(read.error());
    }
  }
  if (const auto fine = image.verify(); !fine) require_one_line(fine.error());
}

void open_image(const Data& bytes) {
  const Fd file(::memfd_create("image", MFD_CLOEXEC));
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) return;
  auto image = Image::open("/proc/self/fd/" + std::to_string(file.get()));
  if (image)
    read_all(*image);
  else
    require_one_line(image.error());
}

/// A small image to begin with: two partitions, a packed chunk.
const Data& valid_image() {
  static const Data bytes = [] {
    const std::int64_t shape[] = {40, 50};
    const std::vector<ImageTensor> tensors{{"a", Tensor::dense(types::bf16, shape), 0, 0, 0},
                                           {"bb", Tensor::dense(types::u8, shape), 0, 0, 0},
                                           {"c", Tensor::dense(types::f32, shape), 1, 0, 0}};
    const std::string path = "/dev/shm/gantry-fuzz-image-" + std::to_string(::getpid());
    const auto packed = write_image(path, tensors, {Codec::deflate, 0, true},
                                    [](std::size_t, Bytes from, ByteSpan into) -> Result<void> {
                                      for (Bytes i = 0; i < into.size(); ++i)
                                        into[i] = static_cast<std::byte>((from + i) / 7);
                                      return {};
                                    });
    fuzz::require(packed.has_value());
    Data read(packed->file_bytes);
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    fuzz::require(::read(file.get(), read.data(), read.size()) ==
                  static_cast<ssize_t>(read.size()));
    ::unlink(path.c_str());
    return read;
  }();
  return bytes;
}

void decode(fuzz::Input& input) {
  const Coding coding{static_cast<Codec>(input.take<std::uint8_t>() % 5),
                      static_cast<std::uint8_t>(1u << input.take<std::uint8_t>() % 4),
                      kLeastFrameBytes / 2 << input.take<std::uint8_t>() % 6};
  Data raw(input.take<std::uint16_t>());
  const auto rest = input.take_bytes(kMost);
  Data stored(rest.size() + 4);
  const auto size = static_cast<std::uint32_t>(rest.size());  // of one frame
  std::memcpy(stored.data(), &size, sizeof size);
  if (!rest.empty()) std::memcpy(stored.data() + 4, rest.data(), rest.size());
  codec::Decoder decoder;
  const auto crc = decoder.decode(coding, stored, raw);
  if (crc)
    fuzz::require(*crc == crc32c(raw));
  else
    require_one_line(crc.error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.take<std::uint8_t>() % 3) {
    case 0:
      decode(input);
      return 0;
    case 1: {
      const auto rest = input.take_bytes(kMost);
      Data bytes(rest.size());
      if (!rest.empty()) std::memcpy(bytes.data(), rest.data(), rest.size());
      open_image(bytes);
      return 0;
    }
    default: {
      Data bytes = valid_image();
      input.scribble(bytes);
      seal(bytes);
      open_image(bytes);
      return 0;
    }
  }
}
