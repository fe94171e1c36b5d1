#pragma once  // gantry/image/loading.hpp: an image into memory, at the rate of its disk.

#include <chrono>
#include <gantry/engine/file_io.hpp>
#include <gantry/image.hpp>
#include <gantry/memory.hpp>

namespace gantry {

class Device;
class DeviceBuffer;

/// How an image is loaded.
struct LoadOptions {
  /// Where its partitions go, each in a block of its own, and what is read before it is unpacked or
  /// copied to a device: never more than the pool's budget. Nothing: memory of the loading's own,
  /// whose pages are made as it comes.
  std::optional<Pool> pool = {};
  /// To whose memory it is brought: partition i to device i; of fewer devices than partitions to
  /// device i modulo their number. Each partition gets one buffer. Empty: the host's memory.
  std::vector<std::shared_ptr<Device>> devices = {};
  /// Only these partitions; empty: all. The others' tensors are not to be had.
  std::vector<std::size_t> partitions = {};
  std::vector<std::string> first = {};   ///< Tensors that come before all others, in this order.
  std::shared_ptr<FileIo> file_io = {};  ///< Null: make_plain_file_io().
  unsigned workers = 0;  ///< Threads that read, unpack and check; 0: one a CPU, at most 8.
  Deadline deadline = Deadline::never();  ///< For all of it.
};

/// A tensor that is there.
struct LoadedTensor {
  Tensor tensor;        ///< Type and shape; row-major, without gaps.
  ConstByteSpan bytes;  ///< Begins at a multiple of 256. Empty if only a device has it.
  std::shared_ptr<const void> keep;  ///< Whoever has it keeps the bytes, also after the loading.
  /// Of LoadOptions::devices: memory of the device, in which the tensor begins at byte `offset`, a
  /// multiple of 256. Any queue of the device may use it. Null: it is in the host's memory.
  std::shared_ptr<const DeviceBuffer> buffer = {};
  Bytes offset = 0;  ///< Of its first byte in `buffer`.
};

/// What bounds a loading.
enum class LoadBound : std::uint8_t {
  disk,       ///< Reading.
  unpacking,  ///< Unpacking and checking.
  bus         ///< Copies to devices.
};
[[nodiscard]] GANTRY_API std::string_view to_string(LoadBound bound) noexcept;

/// What a loading has cost so far.
struct GANTRY_API LoadReport {
  Bytes raw_bytes = 0;                        ///< That are there, unpacked and checked.
  Bytes stored_bytes = 0;                     ///< That were read for them.
  std::chrono::nanoseconds elapsed{};         ///< From the beginning to now, or to its end.
  std::chrono::nanoseconds waited{};          ///< For the disk, of all workers together.
  std::chrono::nanoseconds unpacked{};        ///< Unpacking and checking, of all workers together.
  unsigned workers = 0;                       ///< How many there are.
  std::string way;                            ///< "directly", or how else and why.
  Bytes copied_bytes = 0;                     ///< That were copied to devices.
  std::chrono::nanoseconds copied{};          ///< How long these copies ran, one after another.
  std::chrono::nanoseconds waited_for_bus{};  ///< For these copies, of all workers together.
  std::string copied_from;                    ///< "registered memory", or what else and why.
  [[nodiscard]] LoadBound bound() const noexcept;  ///< What took most of the workers' time.
  [[nodiscard]] std::string text() const;          ///< All of it, its rates, and what bounded them.
};

/// What a loading would take.
struct GANTRY_API LoadEstimate {
  std::chrono::nanoseconds time{};         ///< From load_image() until all of it is there.
  LoadReport sample;                       ///< What was loaded to find that out.
  [[nodiscard]] std::string text() const;  ///< Both.
};

/// Loads an eighth of what load_image() would, at most 512 MiB, spread over the image, and forgets
/// it: so what bounds it here and now is in it, be it disk, page cache, unpacking or others who use
/// them. Images of up to 384 MiB, packed ones of up to 128 MiB, are loaded whole. Takes no pool's
/// memory: making pages is counted. Errors: as load_image() and ImageLoading::wait().
[[nodiscard]] GANTRY_API Result<LoadEstimate> estimate_load(const Image& image,
                                                            const LoadOptions& options = {});

class ImageLoading;

/// Begins to load. The file is read past the page cache where that can be; an image that is not
/// packed comes straight into its place. The image may go before the loading does. Errors:
/// `invalid_argument` (a partition or a tensor of `first` that is not there), `out_of_memory` and
/// `too_large` (beyond the pool's budget), `system`; of a device `device_full`, `device_lost` and
/// `too_large` (a partition beyond its largest buffer).
[[nodiscard]] GANTRY_API Result<ImageLoading> load_image(const Image& image,
                                                         const LoadOptions& options = {});

/// An image that comes into memory. Tensors may be used one by one as they are there. Any thread
/// may call every member. The destructor cancels; what was handed out stays.
class GANTRY_API ImageLoading {
 public:
  struct State;
  ImageLoading(ImageLoading&&) noexcept;             ///< The other may only be assigned to or die.
  ImageLoading& operator=(ImageLoading&&) noexcept;  ///< Likewise.
  ~ImageLoading();

  /// Waits until every byte of the tensor is checked and there, on its device if it has one.
  /// Errors: `not_found` (no such tensor, or not in a partition that is loaded), `timed_out` (by
  /// this deadline; the loading goes on), and what ended the loading: `invalid_argument` (a chunk
  /// that was changed, with image, chunk and offset), `timed_out`, `interrupted` (cancelled),
  /// `unsupported`, `out_of_memory`, `system`, and those of a device's copies.
  [[nodiscard]] Result<LoadedTensor> wait(std::string_view tensor,
                                          Deadline deadline = Deadline::never());
  /// Waits for all of it. Errors as above.
  [[nodiscard]] Result<void> wait(Deadline deadline = Deadline::never());
  /// What is not there now never will be: waiting for it ends with `interrupted`.
  void cancel() noexcept;
  [[nodiscard]] LoadReport report() const;  ///< At any time.

 private:
  friend Result<ImageLoading> load_image(const Image& image, const LoadOptions& options);
  explicit ImageLoading(std::shared_ptr<State> state) noexcept;
  void forget() noexcept;
  std::shared_ptr<State> state_;
};

}  // namespace gantry
