#pragma once  // gantry/snapshot.hpp: a program's memory in an image, usable at once when restored.

#include <gantry/image.hpp>

namespace gantry {

/// A region of a snapshot's memory. It starts at a page boundary.
struct SnapshotRegion {
  std::string name;  ///< 1 to 255 bytes, valid as an ImageTensor's name; unique in the snapshot.
  Bytes bytes = 0;   ///< At least 1.
};

/// Whether memory may be used before it is loaded. That needs userfaultfd (Linux 5.14): a thread
/// that touches a missing page sleeps until the page is loaded.
enum class Lazy {
  if_possible,  ///< If it is not possible, everything is loaded first; report() has the reason.
  require,      ///< If it is not possible, restore() fails, with the remedy.
  no,           ///< Everything is loaded first.
};

/// How to restore a snapshot.
struct RestoreOptions {
  Lazy lazy = Lazy::if_possible;  ///< Whether restore() may return before everything is loaded.
  /// A process without privileges can use userfaultfd only for its own accesses: system calls on
  /// missing pages fail with EFAULT. True: accept that.
  bool own_accesses_only = false;
  /// Record which pages are touched, from the beginning to settled(). Needs userfaultfd and shared
  /// memory, whose pages take longer to make; without recording, the memory is a private mapping.
  bool record = false;
  std::shared_ptr<FileIo> file_io = {};  ///< Null: make_plain_file_io().
  unsigned workers = 0;  ///< Threads that load; 0: one per CPU, at most 8; twice as many if lazy.
  /// Deadline for the pages; the tables, which are small, are read before that.
  Deadline deadline = Deadline::never();
};

/// How to save a snapshot.
struct SaveOptions {
  ImageOptions packing = {};  ///< Packing of the pages.
  /// The working set: pages to store first, in this order; pages of zeros are omitted. Empty:
  /// Snapshot::touched().
  std::optional<std::vector<std::uint64_t>> touched = {};
};

/// Cost of a restore so far.
struct GANTRY_API RestoreReport {
  bool is_lazy = false;         ///< The memory was usable before everything was loaded.
  std::string why_not_lazy;     ///< Reason if it was not; otherwise empty.
  Bytes bytes = 0;              ///< Size of all regions, in whole pages.
  Bytes first_bytes = 0;        ///< Size of the working set.
  Bytes zero_bytes = 0;         ///< Size of the pages that are not stored.
  Bytes loaded_bytes = 0;       ///< Bytes unpacked, checked and available.
  Bytes stored_bytes = 0;       ///< Bytes read from the file for them.
  std::size_t faults = 0;       ///< Touches that had to wait.
  std::size_t out_of_turn = 0;  ///< Reads for pages that a thread waited for.
  /// Time until the working set was loaded; 0: not yet.
  std::chrono::nanoseconds until_working_set{};
  std::chrono::nanoseconds elapsed{};      ///< Time until now, or until everything was loaded.
  unsigned workers = 0;                    ///< Number of threads that load.
  std::string way;                         ///< How the file is read, as LoadReport::way.
  [[nodiscard]] std::string text() const;  ///< All figures for people.
};

/// Regions of memory that are saved together in an image and restored from it: usable at once,
/// while they load, but at another address, so pointers within them must be offsets. The program
/// may use the memory as its own: it may protect, lock and drop it, but must not move it (after
/// mremap() the old place reads as zeros), unmap it, or map other memory over it (which would be
/// saved, and unmapped by the destructor). Several threads may touch missing pages. Any thread may
/// call every member except save(), record() and settled(), which must not run at the same time.
/// The destructor unmaps the memory. A child of fork() has neither the memory (touching it raises
/// SIGSEGV) nor the object.
class GANTRY_API Snapshot {
 public:
  struct State;
  /// Makes regions of zeros, for a first run. Errors: `invalid_argument` (a name, a size),
  /// `system`, `too_large`, `out_of_memory`, `unsupported` (pages of a size other than 4 KiB).
  [[nodiscard]] static Result<Snapshot> create(std::span<const SnapshotRegion> regions);
  /// Opens an image of save() and begins to load it: the working set first, in its order, then the
  /// rest; a page that is touched out of turn comes next. If lazy, returns as soon as the tables
  /// are read. Errors: `invalid_argument` (not a snapshot; inconsistent tables), `unsupported` and
  /// `permission_denied` (no userfaultfd although required, or needed to record), those of
  /// Image::open(), and if not lazy those of wait().
  [[nodiscard]] static Result<Snapshot> restore(const std::string& path,
                                                const RestoreOptions& options = {});
  Snapshot(Snapshot&&) noexcept;  ///< The moved-from snapshot may only be assigned to or destroyed.
  Snapshot& operator=(Snapshot&&) noexcept;  ///< As the move constructor.
  ~Snapshot();

  /// Regions in the order of their pages. Valid as long as the snapshot.
  [[nodiscard]] std::span<const SnapshotRegion> regions() const noexcept;
  /// The memory of one region. Touching a missing page waits for it; if the page can never be
  /// loaded (error() has the reason), touching it raises SIGBUS, and system calls fail with EFAULT.
  /// Pages that the program drops (MADV_DONTNEED), loaded or not, are then zeros; in memory from
  /// create(), or restored with `record`, they return with their contents. Errors: `not_found`.
  [[nodiscard]] Result<ByteSpan> region(std::string_view name) const;

  /// Begins to record which pages are touched, in order; each touch costs a fault. All pages must
  /// be loaded. Discards earlier recordings; touches for which there is no memory are not recorded.
  /// Errors: as restore() with `record`; `invalid_argument` (still loading; restored without
  /// RestoreOptions::record).
  [[nodiscard]] Result<void> record(bool own_accesses_only = false);
  /// Ends the recording. Errors: `system`.
  [[nodiscard]] Result<void> settled();
  /// Pages that were recorded so far; without a recording, the working set of the restored image.
  /// Page numbers count from 0 through all regions, each of which starts a page; each number
  /// appears once.
  [[nodiscard]] std::vector<std::uint64_t> touched() const;

  /// Writes everything to an image, as write_image() does: the working set in a separate partition,
  /// then all other pages that are not zero. Waits until everything is loaded. Errors: those of
  /// write_image() and wait(); `invalid_argument` (a page that was written meanwhile, a page in
  /// `touched` that does not exist or appears twice). After an error no part of the file remains.
  [[nodiscard]] Result<ImageFacts> save(const std::string& path,
                                        const SaveOptions& options = {}) const;

  /// Waits until everything is loaded. Errors: `timed_out` (by this deadline; loading continues),
  /// and the error that ended the loading: `invalid_argument` (a changed chunk, with image, chunk
  /// and offset), `timed_out`, `unsupported`, `out_of_memory`, `system`.
  [[nodiscard]] Result<void> wait(Deadline deadline = Deadline::never()) const;
  /// Waits until the working set is loaded. Errors: as wait().
  [[nodiscard]] Result<void> wait_for_working_set(Deadline deadline = Deadline::never()) const;
  [[nodiscard]] std::optional<Error> error() const;  ///< The error that ended the loading, if any.
  [[nodiscard]] RestoreReport report() const;        ///< Cost so far, at any time.

 private:
  explicit Snapshot(std::shared_ptr<State> state) noexcept;
  std::shared_ptr<State> state_;
};

}  // namespace gantry
