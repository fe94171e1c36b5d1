#pragma once  // gantry/file.hpp: reads and writes of open files, several at a time, with deadlines.

#include <gantry/engine.hpp>
#include <memory>

namespace gantry {

/// An open descriptor with a name for errors. Owns the descriptor.
class GANTRY_API OpenFile {
 public:
  /// Takes `descriptor` over. `name` is, for example, "file 'x'".
  OpenFile(int descriptor, std::string name) noexcept
      : descriptor_(descriptor), name_(std::move(name)) {}
  /// Opens a file for reads that bypass the page cache (O_DIRECT): the storage device writes into
  /// the memory itself. If that is not possible, the file is opened normally, and why_not_direct()
  /// has the reason. `name`: for errors; empty: made from the path. Errors: `not_found`,
  /// `permission_denied`, `system`, with the name and the kernel's reason.
  [[nodiscard]] static Result<std::shared_ptr<const OpenFile>> open_direct(const std::string& path,
                                                                           std::string name = {});
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// The descriptor, which this object owns.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Name in messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// A power of two, in bytes: offset, size and address of every read must be multiples of it. 1:
  /// reads use the page cache and do not need alignment.
  [[nodiscard]] Bytes alignment() const noexcept { return alignment_; }
  /// Reason for people; empty if the file is read directly, or if that was not requested.
  [[nodiscard]] const std::string& why_not_direct() const noexcept { return why_not_direct_; }

 private:
  const int descriptor_;
  const std::string name_;
  Bytes alignment_ = 1;
  std::string why_not_direct_;
};

/// Fills `memory` from the file's byte `offset` on, or writes all of it there. A plain value.
struct FileTransfer {
  /// Direction, as seen from the file.
  enum class Kind : std::uint8_t { read, write };
  /// Writes from memory that this process may only read, such as a received message's.
  [[nodiscard]] static FileTransfer write_of(std::shared_ptr<const OpenFile> file,
                                             std::uint64_t offset, ConstByteSpan from,
                                             std::shared_ptr<const void> keep = {}) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): a write only reads it
    const ByteSpan memory(const_cast<std::byte*>(from.data()), from.size());
    return {Kind::write, std::move(file), offset, memory, std::move(keep)};
  }
  Kind kind = Kind::read;                     ///< Direction.
  std::shared_ptr<const OpenFile> file = {};  ///< Stays open while the transfer holds it.
  std::uint64_t offset = 0;                   ///< Bytes from the beginning of the file.
  ByteSpan memory = {};                       ///< Source or destination; a write only reads it.
  /// Keeps the memory alive. Dropped when the kernel is done with the memory, however late, and
  /// even if no call waits for it. Without `keep`, the caller must keep the memory until drain() or
  /// wait() has returned.
  std::shared_ptr<const void> keep = {};
};

/// Transfers in flight, in any order. Any thread may call every member.
///
/// Errors of a transfer, returned by wait(): `system` and related codes with the file's name and
/// the kernel's reason; `system` with "N of M bytes are there from offset O on" if the file ends
/// before the range does; `interrupted` (cancelled). Bytes of a failed write are not undone. If the
/// size of a file is not a multiple of its alignment(), its last bytes cannot be read directly.
///
/// The destructor cancels and does not wait: files and memory in use by the kernel are held
/// until the kernel is done.
class GANTRY_API FileLane {
 public:
  FileLane() = default;
  FileLane(const FileLane&) = delete;
  FileLane& operator=(const FileLane&) = delete;
  virtual ~FileLane() = default;

  /// Submits a transfer and returns at once. Errors: `invalid_argument` (no file, no memory, a
  /// range that is beyond the largest file offset or not aligned as the file requires, a lane of
  /// the parent after fork()); `interrupted` between cancel() and drain(); `out_of_memory`.
  [[nodiscard]] virtual Result<Ticket> submit(const FileTransfer& transfer) = 0;
  /// True if wait() would return at once.
  [[nodiscard]] virtual bool is_over(Ticket ticket) const = 0;
  /// Waits for the end of one transfer and returns its result, once. Further errors: `timed_out`
  /// (the transfer continues and may be awaited again); `invalid_argument` for an unknown ticket.
  [[nodiscard]] virtual Result<void> wait(Ticket ticket, Deadline deadline = Deadline::never()) = 0;
  /// Makes every wait() return `interrupted`, and returns at once. Transfers that have not begun
  /// never will; the kernel stops others if it can. Memory is free only when drain() has returned.
  virtual void cancel() noexcept = 0;
  /// Waits until the kernel is done with all transfers. The lane may then be used again; results
  /// that were not waited for are lost. Errors: `timed_out`, which changes nothing.
  [[nodiscard]] virtual Result<void> drain(Deadline deadline = Deadline::never()) = 0;
};

/// A way to read and write files. Any thread may call every member.
class GANTRY_API FileIo {
 public:
  FileIo() = default;
  FileIo(const FileIo&) = delete;
  FileIo& operator=(const FileIo&) = delete;
  virtual ~FileIo() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  ///< "io_uring", "pread".
  /// Describes this way, and the reason why a better one is not used, for people.
  [[nodiscard]] virtual std::string about() const = 0;
  /// Opens a lane with a separate thread. It takes reads and writes, and serves the given kind
  /// best. Errors: `out_of_memory`, `system`.
  [[nodiscard]] virtual Result<std::unique_ptr<FileLane>> open_lane(
      FileTransfer::Kind serving = FileTransfer::Kind::read) = 0;
};

/// Makes a FileIo that uses pread() and pwrite(), one after another; works everywhere. `why`: the
/// reason why a better way is not used.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<FileIo>> make_plain_file_io(std::string why = {});

/// Makes a FileIo by name: "io_uring", "pread". Devices of a Runtime already have the best one.
/// Errors: `unsupported`, with the software or setting that is missing; `not_found`.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<FileIo>> make_file_io(std::string_view name);
/// Lists the ways, best first: usable here, or the reason and remedy if not.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> file_ios();

}  // namespace gantry
