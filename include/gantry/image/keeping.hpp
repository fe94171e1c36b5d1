#pragma once  // gantry/image/keeping.hpp: images that one process keeps in memory for all others.

#include <functional>
#include <gantry/channel.hpp>
#include <gantry/image/loading.hpp>

namespace gantry {

// ---- to use one ----------------------------------------------------------------------------

/// An image that another process keeps, mapped here and read-only. Any thread may call every
/// member. Cheap to copy; the image stays as long as a copy, or what a tensor's `keep` has, also
/// when its keeper is gone. A keeper is trusted as the sender of a message is: it could change
/// bytes that it has written.
class GANTRY_API AttachedImage {
 public:
  struct State;
  [[nodiscard]] const std::string& name() const noexcept;    ///< As its keeper has it.
  [[nodiscard]] const ImageDigest& digest() const noexcept;  ///< As the file has it.
  /// In the order of their bytes. Valid as long as this.
  [[nodiscard]] std::span<const ImageTensor> tensors() const noexcept;
  [[nodiscard]] std::span<const ImagePartition> partitions() const noexcept;  ///< At least one.
  /// Bytes of a partition, without its end's border. `invalid_argument`: there is none of that
  /// number.
  [[nodiscard]] Result<ConstByteSpan> bytes(std::size_t partition) const;
  /// Errors: `not_found`.
  [[nodiscard]] Result<LoadedTensor> tensor(std::string_view name) const;

 private:
  friend Result<AttachedImage> attach_image(std::string_view name, const ConsumerOptions& options,
                                            Deadline deadline);
  explicit AttachedImage(std::shared_ptr<const State> state) noexcept;
  std::shared_ptr<const State> state_;
};

/// Maps the image that a keeper has under this name, and copies nothing but its tables; waits for
/// the keeper, and for the image to be loaded. Errors: those of Consumer::open() and receive();
/// `busy` if it has all its readers (32); what keeps the keeper from loading it, with its words (a
/// file that was changed: `invalid_argument`), while want of room alone is waited for;
/// `invalid_argument` if what has the name keeps no image, `peer_misbehaved` if what it says of the
/// image is wrong. As long as anybody has it here, its keeper counts this process among its
/// readers.
[[nodiscard]] GANTRY_API Result<AttachedImage> attach_image(std::string_view name,
                                                            const ConsumerOptions& options = {},
                                                            Deadline deadline = Deadline::never());

/// In a stage: attaches the image of [images.NAME] in the pipeline file. Errors: as attach_image();
/// `not_found` if there is none of that name on this host, or `gantry run` did not start the
/// program.
[[nodiscard]] GANTRY_API Result<AttachedImage> stage_image(std::string_view name,
                                                           const ConsumerOptions& options = {},
                                                           Deadline deadline = Deadline::never());

// ---- to keep some --------------------------------------------------------------------------

/// An image to be kept.
struct KeptFile {
  std::string name;  ///< As of a channel: see check_channel_name().
  std::string path;  ///< Of the image.
};

/// What a keeper may take, and how its ends behave.
struct KeepOptions : EndOptions {
  /// For the bytes of all images that are in memory at a time. 0: four fifths of the machine's
  /// memory.
  Bytes budget_bytes = 0;
  /// Pages of the images. Where it is `any`, an image lies in huge pages if enough are reserved.
  PageKind pages = PageKind::any;
  /// Gathers an image's pages into huge ones before it is read: see PoolOptions::collapse.
  bool collapse = false;
  std::shared_ptr<FileIo> file_io{};  ///< Null: make_plain_file_io().
  unsigned workers = 0;               ///< As LoadOptions::workers.
};

/// How an image stands with its keeper.
struct KeptImage {
  std::string name;       ///< As its readers find it.
  std::string path;       ///< The file.
  Bytes bytes = 0;        ///< In memory, when it is.
  bool is_there = false;  ///< It is in memory.
  unsigned readers = 0;   ///< Processes that have attached it now.
  LoadReport loaded;      ///< What its last loading cost.
  std::string trouble;  ///< Why it is not there although somebody waits for it; empty: no trouble.
};

/// Keeps images: a channel for each, whose only message is the image. Used by one thread.
class GANTRY_API ImageKeeper {
 public:
  /// Opens the images and takes their names; loads nothing yet. Errors: those of Image::open() and
  /// Producer::open(); `too_large` for an image that has more bytes than the budget, or more than
  /// 63 partitions; `invalid_argument` for two of one name, or none.
  [[nodiscard]] static Result<ImageKeeper> open(const std::vector<KeptFile>& files,
                                                const KeepOptions& options = {});
  ImageKeeper(ImageKeeper&&) noexcept;             ///< The other may only be assigned to or die.
  ImageKeeper& operator=(ImageKeeper&&) noexcept;  ///< Likewise.
  ~ImageKeeper();                                  ///< Readers keep what they have.

  /// Loads, in their order, the images that find room; then, whenever somebody attaches one that is
  /// not there, that one, for which those go that nobody has, the least recently attached first. An
  /// image in use stays. Sleeps while there is nothing to do. Calls `changed` for each that was
  /// loaded, or went, or cannot be loaded. Errors: `interrupted`
  /// (EndOptions::interrupt_descriptor), `timed_out` (the deadline). What is being loaded then goes
  /// on, and the next call hands it out.
  [[nodiscard]] Result<void> serve(const std::function<void(const KeptImage&)>& changed = {},
                                   Deadline deadline = Deadline::never());
  [[nodiscard]] std::vector<KeptImage> images() const;  ///< How they stand.

 private:
  struct GANTRY_LOCAL State;
  explicit ImageKeeper(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace gantry
