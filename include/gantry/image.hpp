#pragma once  // gantry/image.hpp: tensors packed in one file, which is read at the disk's rate.

#include <array>
#include <functional>
#include <gantry/engine.hpp>
#include <gantry/engine/codec.hpp>
#include <gantry/shape/tensor.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gantry {

/// What every image begins with.
inline constexpr std::array<char, 8> kImageMagic{'G', 'A', 'N', 'T', 'R', 'Y', 'I', 'M'};
/// Raw bytes of a chunk; the last of a partition may have fewer.
inline constexpr Bytes kImageChunkBytes = Bytes{4} << 20;
/// What chunks begin at multiples of, in the file.
inline constexpr Bytes kImageBorder = 4096;
/// What tensors begin at multiples of, in their partition.
inline constexpr Bytes kImageTensorBorder = 256;

/// A tensor of an image.
struct ImageTensor {
  /// 1 to 255 bytes, without '/' and control characters; neither "." nor "..".
  std::string name;
  Tensor tensor;           ///< Its type and shape; row-major, without gaps.
  unsigned partition = 0;  ///< The partition that it lies in.
  Bytes offset = 0;        ///< Of its first byte in the partition's.
  Bytes bytes = 0;         ///< That it has; 0 if a dimension has none.
};

/// Tensors that are loaded together: those of a device, or of a shard. Its bytes are those of its
/// tensors, each at the next border, with zeros between them, cut into chunks.
struct ImagePartition {
  Bytes bytes = 0;              ///< Raw.
  std::size_t first_chunk = 0;  ///< Its chunks lie together.
  std::size_t chunks = 0;       ///< How many there are.
};

/// A part of a partition, as it is stored.
struct ImageChunk {
  Bytes offset = 0;                 ///< In the file; a multiple of kImageBorder.
  std::uint32_t stored_bytes = 0;   ///< In the file.
  std::uint32_t raw_bytes = 0;      ///< Unpacked.
  std::uint32_t raw_crc32c = 0;     ///< Of the bytes unpacked.
  std::uint32_t stored_crc32c = 0;  ///< Of the bytes in the file.
  Coding coding;                    ///< How they are packed.
};

/// Names what an image holds: names, types, shapes, places and bytes of its tensors, and not how
/// they are packed. XXH3 of 128 bits: whoever wants to can make two contents of one digest.
struct GANTRY_API ImageDigest {
  std::array<std::byte, 16> bytes{};       ///< As they stand in the file.
  [[nodiscard]] std::string text() const;  ///< 32 hexadecimal digits.
  friend bool operator==(const ImageDigest&, const ImageDigest&) = default;
};

/// An image that is open for reading. What it says of itself was checked when it was opened, its
/// chunks are when they are read. The file stays open, so another that gets its name later is not
/// seen. For one thread at a time.
class GANTRY_API Image {
 public:
  /// Reads and checks the tables. Errors name the image, what in it is wrong, and where:
  /// `invalid_argument` (no image, another version, cut off, changed), `not_found`,
  /// `permission_denied`, `out_of_memory`, `system`.
  [[nodiscard]] static Result<Image> open(const std::string& path);
  Image(Image&&) noexcept;             ///< The other may only be assigned to or destroyed.
  Image& operator=(Image&&) noexcept;  ///< Likewise.
  ~Image();

  [[nodiscard]] int descriptor() const noexcept;             ///< Of the open file.
  [[nodiscard]] const std::string& path() const noexcept;    ///< As open() was told.
  [[nodiscard]] Bytes file_bytes() const noexcept;           ///< Of the whole file.
  [[nodiscard]] const ImageDigest& digest() const noexcept;  ///< As the file has it; see verify().
  /// In the order of their bytes. Valid as long as the image.
  [[nodiscard]] std::span<const ImageTensor> tensors() const noexcept;
  [[nodiscard]] std::span<const ImagePartition> partitions() const noexcept;  ///< At least one.
  [[nodiscard]] std::span<const ImageChunk> chunks() const noexcept;  ///< In the file's order.
  /// Null: there is none of that name.
  [[nodiscard]] const ImageTensor* find(std::string_view name) const noexcept;

  /// Reads a tensor of this image to `into`, which has its size. Reads, unpacks and checks whole
  /// chunks; the last one that was not needed whole is kept, so that small tensors which are read
  /// in order cost one reading. Errors: `invalid_argument` (another size, a chunk that was
  /// changed, with image, chunk and offset), `unsupported` (packed by a codec that is not in this
  /// build), `system`, `out_of_memory`.
  [[nodiscard]] Result<void> read(const ImageTensor& tensor, ByteSpan into);
  /// The same of bytes [from, from + into.size()) of a partition.
  [[nodiscard]] Result<void> read(std::size_t partition, Bytes from, ByteSpan into);
  /// Reads everything. Errors: as read(), and for each bit of the file that is not as it was
  /// packed, also where nothing is stored.
  [[nodiscard]] Result<void> verify();

 private:
  struct GANTRY_LOCAL State;
  explicit Image(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// How an image is packed.
struct ImageOptions {
  /// Each chunk by this codec; if it gains less than 5 %, it is stored as it is. Nothing: by lz4 or
  /// zstd, whichever makes the first part of a chunk smaller (lz4 also if 5 % larger, because it is
  /// unpacked quicker), in planes if that helps.
  std::optional<Codec> codec = Codec::none;
  int level = 0;        ///< The codec's; 0: its default.
  bool planes = false;  ///< In planes, where most bytes are of numbers of 2 or 4 bytes.
  std::uint32_t frame_bytes = kMostFrameBytes;  ///< As Coding has them.
};

/// What came of it.
struct ImageFacts {
  Bytes file_bytes = 0;  ///< Of the file.
  Bytes raw_bytes = 0;   ///< Of all partitions.
  ImageDigest digest;    ///< Of its content.
};

/// Gives bytes [from, from + into.size()) of the tensor with this index in what write_image() was
/// handed. Asked from front to back. An error ends the packing and is handed on.
using ImageSource = std::function<Result<void>(std::size_t tensor, Bytes from, ByteSpan into)>;

/// Packs tensors. Of each it takes name, type, shape and partition: they lie in the order of the
/// list, so partitions follow each other from 0 on. The file gets its name when it is whole and on
/// the disk; before that it has none, or where the file system knows no such files
/// PATH.partial-PID. A file that has the name already is replaced. The same tensors and options
/// give the same bytes, with the same versions of codecs; deflate's may differ from one kind of CPU
/// to another. Errors: `invalid_argument` (with the tensor), `too_large` (4 TiB, 1,048,576
/// tensors), `unsupported`, `permission_denied`, `system`; the source's. Then nothing of it stays.
[[nodiscard]] GANTRY_API Result<ImageFacts> write_image(const std::string& path,
                                                        std::span<const ImageTensor> tensors,
                                                        const ImageOptions& options,
                                                        const ImageSource& source);

/// Returns the bytes of a tensor without gaps. Errors: `invalid_argument` (a type without bits,
/// unknown groups, a negative dimension), `too_large`.
[[nodiscard]] GANTRY_API Result<Bytes> dense_bytes(const Tensor& tensor);

/// Lists the codecs: usable in this build, or why not and how to mend that.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> list_codecs();

}  // namespace gantry
