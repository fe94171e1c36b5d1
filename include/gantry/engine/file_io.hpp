#pragma once  // gantry/engine/file_io.hpp: ranges of open files from and to memory, several at a
              // time, each waited for no longer than its waiter wants.

#include <gantry/engine.hpp>
#include <memory>

namespace gantry {

/// An open descriptor, and what errors call it. Closes it in the end.
class GANTRY_API OpenFile {
 public:
  /// `name`: "file 'x'".
  OpenFile(int descriptor, std::string name) noexcept
      : descriptor_(descriptor), name_(std::move(name)) {}
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  const int descriptor_;
  const std::string name_;
};

/// All of `memory` from the file's byte `offset` on, or to there. A plain value.
struct FileTransfer {
  enum class Kind : std::uint8_t { read, write };
  Kind kind = Kind::read;
  std::shared_ptr<const OpenFile> file = {};
  std::uint64_t offset = 0;
  ByteSpan memory = {};  ///< Only read by a write.
  /// Holds the memory. It is let go when the kernel is done with it, however late that is and
  /// whoever still waits; without it the caller keeps the memory until drain() or wait() says so.
  std::shared_ptr<const void> keep = {};
};

/// Transfers on their way, in any order. Every member may be called from any thread.
///
/// Errors of a transfer, told by wait(): `system` and its kin with the file's name and the kernel's
/// reason; `system` with "N of M bytes are there from offset O on" where a file ends before the
/// range does; `interrupted` (cancelled). What a failed write has written is not undone.
///
/// Destruction cancels, and waits for nothing: what the kernel does not give back yet is held until
/// it does.
class GANTRY_API FileLane {
 public:
  FileLane() = default;
  FileLane(const FileLane&) = delete;
  FileLane& operator=(const FileLane&) = delete;
  virtual ~FileLane() = default;

  /// Returns at once. Errors: `invalid_argument` (no file, no memory, more than files have, a lane
  /// of the parent's after fork()); `interrupted` between cancel() and drain(); `out_of_memory`.
  [[nodiscard]] virtual Result<Ticket> submit(const FileTransfer& transfer) = 0;
  /// Whether wait() would answer at once.
  [[nodiscard]] virtual bool is_over(Ticket ticket) const = 0;
  /// Waits for the end of one transfer and tells, once, what became of it. Errors besides:
  /// `timed_out` (it goes on and may be waited for again); `invalid_argument` for a ticket that is
  /// nobody's.
  [[nodiscard]] virtual Result<void> wait(Ticket ticket, Deadline deadline = Deadline::never()) = 0;
  /// Returns at once, and so does every wait(), with `interrupted`. What has not begun never will;
  /// what the kernel can stop is stopped. Memory is free only when drain() says so.
  virtual void cancel() noexcept = 0;
  /// Waits until the kernel is done with everything, after which the lane is as new and forgets
  /// what nobody waited for. Errors: `timed_out`: as before.
  [[nodiscard]] virtual Result<void> drain(Deadline deadline = Deadline::never()) = 0;
};

/// A way to read and write files. Every member may be called from any thread.
class GANTRY_API FileIo {
 public:
  FileIo() = default;
  FileIo(const FileIo&) = delete;
  FileIo& operator=(const FileIo&) = delete;
  virtual ~FileIo() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  ///< "io_uring", "pread".
  /// For people: what it is, and why it is not a better one.
  [[nodiscard]] virtual std::string about() const = 0;
  /// With a thread of its own. It takes reads and writes, and serves the named ones best. Errors:
  /// `out_of_memory`, `system`.
  [[nodiscard]] virtual Result<std::unique_ptr<FileLane>> open_lane(
      FileTransfer::Kind serving = FileTransfer::Kind::read) = 0;
};

/// By pread() and pwrite(), one after another, everywhere. `why`: why it is not another one.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<FileIo>> make_plain_file_io(std::string why = {});

}  // namespace gantry
