#pragma once  // gantry/engine/file_io.hpp: reads and writes ranges of open files, several at a
              // time, with deadlines.

#include <gantry/engine.hpp>
#include <memory>

namespace gantry {

/// An open descriptor and its name in errors. Owns the descriptor.
class GANTRY_API OpenFile {
 public:
  /// `name`: for example "file 'x'".
  OpenFile(int descriptor, std::string name) noexcept
      : descriptor_(descriptor), name_(std::move(name)) {}
  /// Opens a file for reads that pass the page cache by (O_DIRECT): the device writes into the
  /// memory itself. Where that cannot be the file is opened as usual, and why_not_direct() says
  /// why. `name`: as above; empty: of the path. Errors: `not_found`, `permission_denied`, `system`
  /// with the name and the kernel's reason.
  [[nodiscard]] static Result<std::shared_ptr<const OpenFile>> open_direct(const std::string& path,
                                                                           std::string name = {});
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Its descriptor.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Its path, for messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Bytes, a power of two: offset, size and address of every read are multiples of it. 1: reads go
  /// through the page cache and may be any.
  [[nodiscard]] Bytes alignment() const noexcept { return alignment_; }
  /// For people; empty for a file that is read directly, or was not to be.
  [[nodiscard]] const std::string& why_not_direct() const noexcept { return why_not_direct_; }

 private:
  const int descriptor_;
  const std::string name_;
  Bytes alignment_ = 1;
  std::string why_not_direct_;
};

/// Reads all of `memory` from the file's byte `offset` on, or writes it there. A plain value.
struct FileTransfer {
  /// The direction, as the file sees it.
  enum class Kind : std::uint8_t { read, write };
  /// Writes from memory that this process may only read, such as a received message's.
  [[nodiscard]] static FileTransfer write_of(std::shared_ptr<const OpenFile> file,
                                             std::uint64_t offset, ConstByteSpan from,
                                             std::shared_ptr<const void> keep = {}) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): a write only reads it
    const ByteSpan memory(const_cast<std::byte*>(from.data()), from.size());
    return {Kind::write, std::move(file), offset, memory, std::move(keep)};
  }
  Kind kind = Kind::read;                     ///< Which way.
  std::shared_ptr<const OpenFile> file = {};  ///< Stays open while the transfer has it.
  std::uint64_t offset = 0;                   ///< In bytes, from the file's beginning.
  ByteSpan memory = {};                       ///< A write only reads it.
  /// Keeps the memory alive. It is dropped when the kernel is done with the memory, however late,
  /// whether or not anybody still waits. Without it the caller keeps the memory until drain() or
  /// wait() has returned.
  std::shared_ptr<const void> keep = {};
};

/// Transfers on their way, in any order. Any thread may call every member.
///
/// Errors of a transfer, returned by wait(): `system` and its kin with the file's name and the
/// kernel's reason; `system` with "N of M bytes are there from offset O on" where a file ends
/// before the range does; `interrupted` (cancelled). What a failed write has written is not undone.
/// The last bytes of a file whose size is no multiple of its alignment() cannot be read directly.
///
/// The destructor cancels and does not wait: what the kernel still uses is held until the kernel
/// gives it back.
class GANTRY_API FileLane {
 public:
  FileLane() = default;
  FileLane(const FileLane&) = delete;
  FileLane& operator=(const FileLane&) = delete;
  virtual ~FileLane() = default;

  /// Returns at once. Errors: `invalid_argument` (no file, no memory, a range beyond what files
  /// have or not aligned as the file wants it, a lane of the parent's after fork()); `interrupted`
  /// between cancel() and drain(); `out_of_memory`.
  [[nodiscard]] virtual Result<Ticket> submit(const FileTransfer& transfer) = 0;
  /// True if wait() would answer at once.
  [[nodiscard]] virtual bool is_over(Ticket ticket) const = 0;
  /// Waits for the end of one transfer and returns its outcome, once. Errors besides: `timed_out`
  /// (the transfer goes on and may be waited for again); `invalid_argument` for an unknown ticket.
  [[nodiscard]] virtual Result<void> wait(Ticket ticket, Deadline deadline = Deadline::never()) = 0;
  /// Returns at once; so does every wait(), with `interrupted`. Transfers that have not begun never
  /// will; the kernel stops what it can. Memory is free only when drain() has returned.
  virtual void cancel() noexcept = 0;
  /// Waits until the kernel is done with everything. Then the lane is as new and forgets outcomes
  /// that nobody waited for. Errors: `timed_out`, after which all is as before.
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
  /// Says what it is, and why it is not a better one, for people.
  [[nodiscard]] virtual std::string about() const = 0;
  /// Opens a lane with a thread of its own. It takes reads and writes, and serves the named kind
  /// best. Errors: `out_of_memory`, `system`.
  [[nodiscard]] virtual Result<std::unique_ptr<FileLane>> open_lane(
      FileTransfer::Kind serving = FileTransfer::Kind::read) = 0;
};

/// Uses pread() and pwrite(), one after another; works everywhere. `why`: why no better way is
/// used.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<FileIo>> make_plain_file_io(std::string why = {});

}  // namespace gantry
