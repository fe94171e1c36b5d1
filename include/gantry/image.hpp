#pragma once  // gantry/image.hpp: tensors in one file: packing, loading and sharing.

#include <array>
#include <chrono>
#include <functional>
#include <gantry/channel.hpp>
#include <gantry/engine.hpp>
#include <gantry/file.hpp>
#include <gantry/memory.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gantry {

/// Compression of stored bytes. Values as in files: docs/formats/image.md.
enum class Codec : std::uint8_t {
  none = 0,     ///< Stored without compression.
  lz4 = 1,      ///< Fastest to unpack.
  zstd = 2,     ///< Smallest result.
  deflate = 3,  ///< By ISA-L; Intel IAA can unpack it.
};
/// Number of codecs.
inline constexpr std::size_t kCodecs = 4;
[[nodiscard]] GANTRY_API std::string_view to_string(Codec codec) noexcept;

/// Lower limit of Coding::frame_bytes.
inline constexpr std::uint32_t kLeastFrameBytes = 64U << 10;
/// Upper limit of Coding::frame_bytes.
inline constexpr std::uint32_t kMostFrameBytes = 512U << 10;

/// How a run of bytes is packed.
struct Coding {
  Codec codec = Codec::none;  ///< Compression of the bytes.
  /// 2 or 4: the bytes are numbers of that size and were split into planes before packing
  /// (docs/formats/planes.md). 1: no planes.
  std::uint8_t plane_bytes = 1;
  /// Raw bytes of one frame: a power of two from 64 KiB to 512 KiB. Frames are packed separately,
  /// so that a part of the bytes can be unpacked frame by frame; larger frames compress better.
  std::uint32_t frame_bytes = kMostFrameBytes;
  friend bool operator==(const Coding&, const Coding&) = default;
};

// ---- tensors packed in one file -----------------------------------------------------------------

/// First bytes of every image.
inline constexpr std::array<char, 8> kImageMagic{'G', 'A', 'N', 'T', 'R', 'Y', 'I', 'M'};
/// Raw bytes of a chunk; the last chunk of a partition may have fewer.
inline constexpr Bytes kImageChunkBytes = Bytes{4} << 20;
/// Alignment of chunks in the file, in bytes.
inline constexpr Bytes kImageBorder = 4096;
/// Alignment of tensors in their partition, in bytes.
inline constexpr Bytes kImageTensorBorder = 256;

/// A tensor of an image.
struct ImageTensor {
  /// Name of 1 to 255 bytes, without '/' and control characters; neither "." nor "..".
  std::string name;
  Tensor tensor;           ///< Type and shape; row-major, without gaps.
  unsigned partition = 0;  ///< Number of its partition.
  Bytes offset = 0;        ///< Offset of the tensor's first byte in the partition.
  Bytes bytes = 0;         ///< Size of the tensor; 0 if a dimension is 0.
};

/// Tensors that are loaded together, for one device or one shard. The bytes of a partition are its
/// tensors, each at the next border, with zeros between them; these bytes are cut into chunks.
struct ImagePartition {
  Bytes bytes = 0;              ///< Raw size.
  std::size_t first_chunk = 0;  ///< Index of its first chunk; its chunks are consecutive.
  std::size_t chunks = 0;       ///< Number of its chunks.
};

/// The stored form of a part of a partition.
struct ImageChunk {
  Bytes offset = 0;                 ///< Offset in the file; a multiple of kImageBorder.
  std::uint32_t stored_bytes = 0;   ///< Size in the file.
  std::uint32_t raw_bytes = 0;      ///< Unpacked size.
  std::uint32_t raw_crc32c = 0;     ///< CRC of the unpacked bytes.
  std::uint32_t stored_crc32c = 0;  ///< CRC of the bytes in the file.
  Coding coding;                    ///< How the chunk is packed.
};

/// Identifies the content of an image: names, types, shapes, places and bytes of its tensors, but
/// not their packing. XXH3 of 128 bits, not cryptographic: an attacker can make two contents with
/// the same digest.
struct GANTRY_API ImageDigest {
  std::array<std::byte, 16> bytes{};       ///< Byte order as in the file.
  [[nodiscard]] std::string text() const;  ///< 32 hexadecimal digits.
  friend bool operator==(const ImageDigest&, const ImageDigest&) = default;
};

/// An image that is open for reading. Its tables were checked by open(); its chunks are checked
/// when they are read. The file stays open, so a later file of the same name is not seen. For one
/// thread at a time.
class GANTRY_API Image {
 public:
  /// Reads and checks the tables. Errors name the image, the fault and its position:
  /// `invalid_argument` (not an image, another version, truncated, changed), `not_found`,
  /// `permission_denied`, `out_of_memory`, `system`.
  [[nodiscard]] static Result<Image> open(const std::string& path);
  Image(Image&&) noexcept;  ///< The moved-from image may only be assigned to or destroyed.
  Image& operator=(Image&&) noexcept;  ///< As the move constructor.
  ~Image();

  [[nodiscard]] int descriptor() const noexcept;           ///< Descriptor of the open file.
  [[nodiscard]] const std::string& path() const noexcept;  ///< Path given to open().
  [[nodiscard]] Bytes file_bytes() const noexcept;         ///< Size of the whole file.
  /// Digest stored in the file; see verify().
  [[nodiscard]] const ImageDigest& digest() const noexcept;
  /// Tensors in the order of their bytes. Valid as long as the image.
  [[nodiscard]] std::span<const ImageTensor> tensors() const noexcept;
  [[nodiscard]] std::span<const ImagePartition> partitions() const noexcept;  ///< At least one.
  /// Chunks in the order of the file.
  [[nodiscard]] std::span<const ImageChunk> chunks() const noexcept;
  /// Returns null if there is no tensor of that name.
  [[nodiscard]] const ImageTensor* find(std::string_view name) const noexcept;

  /// Reads a tensor of this image to `into`, which must have the tensor's size. Reads, unpacks and
  /// checks whole chunks. The last chunk that was only partly needed is kept, so reading small
  /// tensors in order reads each chunk once. Errors: `invalid_argument` (another size; a changed
  /// chunk, with image, chunk and offset), `unsupported` (a codec that is not in this build),
  /// `system`, `out_of_memory`.
  [[nodiscard]] Result<void> read(const ImageTensor& tensor, ByteSpan into);
  /// Reads bytes [from, from + into.size()) of a partition. Errors: as for a tensor.
  [[nodiscard]] Result<void> read(std::size_t partition, Bytes from, ByteSpan into);
  /// Reads everything. Errors: as read(), and an error if any bit of the file differs from its
  /// packed state, even where nothing is stored.
  [[nodiscard]] Result<void> verify();

 private:
  struct GANTRY_LOCAL State;
  explicit Image(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// How to pack an image.
struct ImageOptions {
  /// Codec of each chunk; a chunk that gains less than 5 % is stored without compression. Empty:
  /// lz4 or zstd, whichever makes the first part of a chunk smaller (lz4 even if 5 % larger,
  /// because it unpacks faster), in planes if that helps.
  std::optional<Codec> codec = Codec::none;
  int level = 0;        ///< Level of the codec; 0: its default.
  bool planes = false;  ///< Use planes where most bytes belong to numbers of 2 or 4 bytes.
  std::uint32_t frame_bytes = kMostFrameBytes;  ///< As Coding::frame_bytes.
};

/// Result of write_image().
struct ImageFacts {
  Bytes file_bytes = 0;  ///< Size of the file.
  Bytes raw_bytes = 0;   ///< Raw size of all partitions.
  ImageDigest digest;    ///< Digest of the content.
};

/// Fills `into` with bytes [from, from + into.size()) of the tensor with this index in the list
/// passed to write_image(). Called from front to back. An error ends write_image(), which returns
/// it.
using ImageSource = std::function<Result<void>(std::size_t tensor, Bytes from, ByteSpan into)>;

/// Packs tensors in the order of the list, using each one's name, type, shape and partition;
/// partition numbers must start at 0 and rise without gaps. The file gets its name when all of it
/// is on the disk; until then it is unnamed, or named PATH.partial-PID if the file system does not
/// support unnamed files. Replaces an existing file of that name. Equal tensors and options give
/// equal bytes with equal versions of the codecs; deflate's result may depend on the kind of CPU.
/// Errors: `invalid_argument` (with the tensor), `too_large` (4 TiB, 1,048,576 tensors),
/// `unsupported`, `permission_denied`, `system`; those of `source`. After an error no part of the
/// file remains.
[[nodiscard]] GANTRY_API Result<ImageFacts> write_image(const std::string& path,
                                                        std::span<const ImageTensor> tensors,
                                                        const ImageOptions& options,
                                                        const ImageSource& source);

/// Returns the size of a tensor without gaps. Errors: `invalid_argument` (a type of 0 bits, unknown
/// groups, a negative dimension), `too_large`.
[[nodiscard]] GANTRY_API Result<Bytes> dense_bytes(const Tensor& tensor);

/// Lists the codecs: usable in this build, or the reason and remedy if not.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> list_codecs();

// ---- loading an image into memory ---------------------------------------------------------------

class Device;
class DeviceBuffer;

/// How to load an image.
struct LoadOptions {
  /// Memory for the partitions, each in a separate block, and for bytes before they are unpacked or
  /// copied to a device; never more than the pool's budget. Empty: the loading uses its own memory,
  /// whose pages are made as the bytes arrive.
  std::optional<Pool> pool = {};
  /// Target devices: partition i goes to device i modulo their number. Each partition gets one
  /// buffer. Empty: the host's memory.
  std::vector<std::shared_ptr<Device>> devices = {};
  /// Partitions to load; empty: all. Tensors of other partitions are not available.
  std::vector<std::size_t> partitions = {};
  std::vector<std::string> first = {};   ///< Tensors to load before all others, in this order.
  std::shared_ptr<FileIo> file_io = {};  ///< Null: make_plain_file_io().
  unsigned workers = 0;  ///< Threads that read, unpack and check; 0: one per CPU, at most 8.
  Deadline deadline = Deadline::never();  ///< For the whole load.
};

/// A tensor that has been loaded.
struct LoadedTensor {
  Tensor tensor;        ///< Type and shape; row-major, without gaps.
  ConstByteSpan bytes;  ///< Starts at a multiple of 256. Empty if only a device has the tensor.
  /// Keeps the bytes alive, even after the loading object is gone.
  std::shared_ptr<const void> keep;
  /// With LoadOptions::devices: memory of the device, in which the tensor begins at byte `offset`,
  /// a multiple of 256. Any queue of the device may use it. Null: the tensor is in the host's
  /// memory.
  std::shared_ptr<const DeviceBuffer> buffer = {};
  Bytes offset = 0;  ///< Offset of the tensor's first byte in `buffer`.
};

/// The resource that limits a load.
enum class LoadBound : std::uint8_t {
  disk,       ///< Reading.
  unpacking,  ///< Unpacking and checking.
  bus         ///< Copies to devices.
};
[[nodiscard]] GANTRY_API std::string_view to_string(LoadBound bound) noexcept;

/// Cost of a load so far.
struct GANTRY_API LoadReport {
  Bytes raw_bytes = 0;                  ///< Bytes unpacked, checked and available.
  Bytes stored_bytes = 0;               ///< Bytes read from the file for them.
  std::chrono::nanoseconds elapsed{};   ///< Time since the beginning, until now or the end.
  std::chrono::nanoseconds waited{};    ///< Time spent waiting for the disk, sum of all workers.
  std::chrono::nanoseconds unpacked{};  ///< Time spent unpacking and checking, sum of all workers.
  unsigned workers = 0;                 ///< Number of workers.
  std::string way;                      ///< "directly", or another way of reading and the reason.
  Bytes copied_bytes = 0;               ///< Bytes copied to devices.
  std::chrono::nanoseconds copied{};    ///< Duration of these copies, one after another.
  /// Time spent waiting for these copies, sum of all workers.
  std::chrono::nanoseconds waited_for_bus{};
  std::string copied_from;  ///< "registered memory", or another kind and the reason.
  /// The activity that took most of the workers' time.
  [[nodiscard]] LoadBound bound() const noexcept;
  [[nodiscard]] std::string text() const;  ///< All figures, the rates, and the limiting resource.
};

/// Predicted cost of a load.
struct GANTRY_API LoadEstimate {
  std::chrono::nanoseconds time{};         ///< From load_image() until everything is available.
  LoadReport sample;                       ///< Report of the sample on which the estimate rests.
  [[nodiscard]] std::string text() const;  ///< Estimate and sample for people.
};

/// Loads an eighth of the bytes that load_image() would load, at most 512 MiB, spread over the
/// image, and discards them: the estimate reflects the limiting resource here and now, be it disk,
/// page cache, unpacking or competing processes. Images of up to 384 MiB, packed ones of up to 128
/// MiB, are loaded whole. Does not use LoadOptions::pool, so the cost of making pages is included.
/// Errors: as load_image() and ImageLoading::wait().
[[nodiscard]] GANTRY_API Result<LoadEstimate> estimate_load(const Image& image,
                                                            const LoadOptions& options = {});

class ImageLoading;

/// Begins to load. Reading bypasses the page cache if possible; an uncompressed image is read
/// straight into its place. `image` may be destroyed before the loading ends. Errors:
/// `invalid_argument` (an unknown partition, or an unknown tensor in `first`), `out_of_memory` and
/// `too_large` (beyond the pool's budget), `system`; from a device `device_full`, `device_lost` and
/// `too_large` (a partition beyond its largest buffer).
[[nodiscard]] GANTRY_API Result<ImageLoading> load_image(const Image& image,
                                                         const LoadOptions& options = {});

/// A load in progress. Each tensor may be used as soon as it is available. Any thread may call
/// every member. The destructor cancels the loading; tensors that were returned stay valid.
class GANTRY_API ImageLoading {
 public:
  struct State;
  /// The moved-from loading may only be assigned to or destroyed.
  ImageLoading(ImageLoading&&) noexcept;
  ImageLoading& operator=(ImageLoading&&) noexcept;  ///< As the move constructor.
  ~ImageLoading();

  /// Waits until every byte of the tensor is checked and available, on its device if it has one.
  /// Errors: `not_found` (no such tensor, or not in a loaded partition), `timed_out` (by this
  /// deadline; the loading continues), and the error that ended the loading: `invalid_argument` (a
  /// changed chunk, with image, chunk and offset), `timed_out`, `interrupted` (cancelled),
  /// `unsupported`, `out_of_memory`, `system`, and those of a device's copies.
  [[nodiscard]] Result<LoadedTensor> wait(std::string_view tensor,
                                          Deadline deadline = Deadline::never());
  /// Waits for the whole loading. Errors: as for one tensor, except `not_found`.
  [[nodiscard]] Result<void> wait(Deadline deadline = Deadline::never());
  /// Stops the loading. Waiting for a tensor that is not available yet ends with `interrupted`.
  void cancel() noexcept;
  [[nodiscard]] LoadReport report() const;  ///< Cost so far, at any time.

 private:
  friend Result<ImageLoading> load_image(const Image& image, const LoadOptions& options);
  explicit ImageLoading(std::shared_ptr<State> state) noexcept;
  void forget() noexcept;
  std::shared_ptr<State> state_;
};

// Images that one process keeps in memory for all others.

// ---- readers -------------------------------------------------------------------------------

/// An image that another process keeps, mapped here read-only. Any thread may call every member.
/// Cheap to copy; the image stays as long as a copy or a tensor's `keep` exists, even when its
/// keeper is gone. A keeper is trusted like the sender of a message: it can change the bytes that
/// it has written.
class GANTRY_API AttachedImage {
 public:
  struct State;
  [[nodiscard]] const std::string& name() const noexcept;    ///< Name at its keeper.
  [[nodiscard]] const ImageDigest& digest() const noexcept;  ///< Digest stored in the file.
  /// Tensors in the order of their bytes. Valid as long as this object.
  [[nodiscard]] std::span<const ImageTensor> tensors() const noexcept;
  [[nodiscard]] std::span<const ImagePartition> partitions() const noexcept;  ///< At least one.
  /// Bytes of a partition, without padding at its end. Errors: `invalid_argument` for an unknown
  /// number.
  [[nodiscard]] Result<ConstByteSpan> bytes(std::size_t partition) const;
  /// The tensor of that name. Errors: `not_found`.
  [[nodiscard]] Result<LoadedTensor> tensor(std::string_view name) const;

 private:
  friend Result<AttachedImage> attach_image(std::string_view name, const ConsumerOptions& options,
                                            Deadline deadline);
  explicit AttachedImage(std::shared_ptr<const State> state) noexcept;
  std::shared_ptr<const State> state_;
};

/// Maps the image that a keeper has under this name and copies only its tables; waits for the
/// keeper, and until the image is loaded. Errors: those of Consumer::open() and receive(); `busy`
/// if the image already has 32 readers; the error that prevents the keeper from loading the image,
/// in the keeper's words (`invalid_argument` for a changed file), except lack of room
/// (attach_image() waits for room); `invalid_argument` if the owner of the name does not keep
/// images; `peer_misbehaved` if the keeper describes the image wrongly. While the result is in use
/// here, the keeper counts this process among its readers.
[[nodiscard]] GANTRY_API Result<AttachedImage> attach_image(std::string_view name,
                                                            const ConsumerOptions& options = {},
                                                            Deadline deadline = Deadline::never());

/// In a stage: attaches the image of [images.NAME] in the pipeline file. Errors: as attach_image();
/// `not_found` if this host does not have an image of that name, or `gantry run` did not start the
/// program.
[[nodiscard]] GANTRY_API Result<AttachedImage> stage_image(std::string_view name,
                                                           const ConsumerOptions& options = {},
                                                           Deadline deadline = Deadline::never());

// ---- keepers -------------------------------------------------------------------------------

/// An image to keep.
struct KeptFile {
  std::string name;  ///< Name, valid as a channel's: see check_channel_name().
  std::string path;  ///< Path of the image file.
};

/// Limits of a keeper, and options of its ends.
struct KeepOptions : EndOptions {
  /// Limit for the bytes of all images in memory at a time. 0: four fifths of the machine's memory.
  Bytes budget_bytes = 0;
  /// Pages of the images. With `any`, an image uses huge pages if enough are reserved.
  PageKind pages = PageKind::any;
  /// Gathers an image's pages into huge ones before reading: see PoolOptions::collapse.
  bool collapse = false;
  std::shared_ptr<FileIo> file_io{};  ///< Null: make_plain_file_io().
  unsigned workers = 0;               ///< As LoadOptions::workers.
};

/// State of an image at its keeper.
struct KeptImage {
  std::string name;       ///< Name for readers.
  std::string path;       ///< Path of the file.
  Bytes bytes = 0;        ///< Size in memory when loaded.
  bool is_there = false;  ///< The image is in memory.
  unsigned readers = 0;   ///< Number of processes that have attached it now.
  LoadReport loaded;      ///< Cost of its latest loading.
  /// Reason why it is not in memory although a reader waits; otherwise empty.
  std::string trouble;
};

/// Keeps images: one channel for each, whose only message is the image. Used by one thread.
class GANTRY_API ImageKeeper {
 public:
  /// Opens the images and takes their names; does not load them yet. Errors: those of Image::open()
  /// and Producer::open(); `too_large` for an image with more bytes than the budget, or more than
  /// 63 partitions; `invalid_argument` for two images of the same name, or an empty list.
  [[nodiscard]] static Result<ImageKeeper> open(const std::vector<KeptFile>& files,
                                                const KeepOptions& options = {});
  /// The moved-from keeper may only be assigned to or destroyed.
  ImageKeeper(ImageKeeper&&) noexcept;
  ImageKeeper& operator=(ImageKeeper&&) noexcept;  ///< As the move constructor.
  ~ImageKeeper();  ///< Readers keep the images that they have attached.

  /// Loads, in order, the images that fit into the budget. After that, loads an image whenever a
  /// reader attaches it; to make room, images without readers are dropped, the least recently
  /// attached first. An image in use stays. Sleeps while there is no work. Calls `changed` for each
  /// image that was loaded or dropped, or cannot be loaded. Errors: `interrupted`
  /// (EndOptions::interrupt_descriptor), `timed_out` (the deadline). A load in progress then
  /// continues, and the next call completes it.
  [[nodiscard]] Result<void> serve(const std::function<void(const KeptImage&)>& changed = {},
                                   Deadline deadline = Deadline::never());

 private:
  struct GANTRY_LOCAL State;
  explicit ImageKeeper(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace gantry
