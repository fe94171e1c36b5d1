#pragma once  // gantry/image/snapshot.hpp: a program's memory in an image, back at once.

#include <gantry/image/loading.hpp>

namespace gantry {

/// A piece of a snapshot's memory. It begins a page.
struct SnapshotRegion {
  std::string name;  ///< 1 to 255 bytes, as an ImageTensor's; no other region has it.
  Bytes bytes = 0;   ///< At least 1.
};

/// Whether memory may be used before it is loaded. That needs userfaultfd (Linux 5.14): the thread
/// that touches a page that is not there sleeps until it is.
enum class Lazy {
  if_possible,  ///< Where it cannot be, everything is loaded first; report() says why.
  require,      ///< Else it is an error, with how to mend it.
  no,           ///< Everything is loaded first.
};

/// How a snapshot comes back.
struct RestoreOptions {
  Lazy lazy = Lazy::if_possible;  ///< Whether restore() returns before everything is there.
  /// A process without rights has userfaultfd for its own accesses only: system calls on memory
  /// that is not there yet end with EFAULT. True: that is good enough.
  bool own_accesses_only = false;
  /// Records which pages are touched, from the beginning to settled(). Needs userfaultfd, and
  /// shared memory, whose pages take longer to make; other memory is a mapping as a heap's,
  /// private.
  bool record = false;
  std::shared_ptr<FileIo> file_io = {};  ///< Null: make_plain_file_io().
  unsigned workers = 0;  ///< Threads that load; 0: one a CPU, at most 8; lazily twice as many.
  /// For the pages; the tables, which are small, are read before.
  Deadline deadline = Deadline::never();
};

/// How a snapshot is saved.
struct SaveOptions {
  ImageOptions packing = {};  ///< Of its pages.
  /// The working set: pages that come first, in this order; those that are zero are left out.
  /// Nothing: Snapshot::touched().
  std::optional<std::vector<std::uint64_t>> touched = {};
};

/// What a snapshot's coming back has cost so far.
struct GANTRY_API RestoreReport {
  bool is_lazy = false;                          ///< It could be used before all was there.
  std::string why_not_lazy;                      ///< Empty if it could.
  Bytes bytes = 0;                               ///< Of all regions, in whole pages.
  Bytes first_bytes = 0;                         ///< Of the working set.
  Bytes zero_bytes = 0;                          ///< Of pages that are not stored.
  Bytes loaded_bytes = 0;                        ///< Unpacked, checked and there.
  Bytes stored_bytes = 0;                        ///< That were read for them.
  std::size_t faults = 0;                        ///< Touches that had to wait.
  std::size_t out_of_turn = 0;                   ///< Reads of what somebody waited for.
  std::chrono::nanoseconds until_working_set{};  ///< 0: it is not there yet.
  std::chrono::nanoseconds elapsed{};            ///< Until now, or until all was there.
  unsigned workers = 0;                          ///< Threads that load.
  std::string way;                               ///< How the file is read, as LoadReport::way.
  [[nodiscard]] std::string text() const;        ///< All of it.
};

/// Regions of memory that are saved together in an image, and come back from it: usable at once,
/// while they load, at another address, so that what is in them refers to itself by offsets. The
/// program uses the memory as its own: it may protect, lock and drop it, but not move it (mremap(),
/// behind which it is zeros), unmap it or map something over it (which would be saved, and unmapped
/// in the end). Several threads may touch a page that is not there. Any thread may call every
/// member but save(), record() and settled(), which are for one at a time. The destructor unmaps
/// the memory. A child of fork() has neither the memory (touching it is SIGSEGV) nor the object.
class GANTRY_API Snapshot {
 public:
  struct State;
  /// Makes regions of zeros, for a first run. Errors: `invalid_argument` (a name, a size),
  /// `system`, `too_large`, `out_of_memory`, `unsupported` (a machine whose pages are not of 4
  /// KiB).
  [[nodiscard]] static Result<Snapshot> create(std::span<const SnapshotRegion> regions);
  /// Opens what save() wrote and begins to load it: the working set first, in its order, then the
  /// rest; a page that is touched out of turn comes next. If lazy, it returns as soon as the tables
  /// are read. Errors: `invalid_argument` (no snapshot; tables that contradict each other),
  /// `unsupported` and `permission_denied` (no userfaultfd where it is required, or to record),
  /// those of Image::open(), and if it is not lazy those of wait().
  [[nodiscard]] static Result<Snapshot> restore(const std::string& path,
                                                const RestoreOptions& options = {});
  Snapshot(Snapshot&&) noexcept;             ///< The other may only be assigned to or die.
  Snapshot& operator=(Snapshot&&) noexcept;  ///< Likewise.
  ~Snapshot();

  /// In the order of their pages. Valid as long as the snapshot.
  [[nodiscard]] std::span<const SnapshotRegion> regions() const noexcept;
  /// The memory of one. Touching what is not there waits for it; if it can never be there (error()
  /// says why) it is SIGBUS, and EFAULT in system calls. What the program drops (MADV_DONTNEED),
  /// there or not yet, is zero then; what create() made, or what was restored to record, comes
  /// again. Errors: `not_found`.
  [[nodiscard]] Result<ByteSpan> region(std::string_view name) const;

  /// Records from now on which pages are touched, in their order; each costs a fault. All must be
  /// there. What was recorded before is forgotten; what there is no memory for is not recorded.
  /// Errors: as restore() with `record`; `invalid_argument` (it is loading; it was restored without
  /// RestoreOptions::record).
  [[nodiscard]] Result<void> record(bool own_accesses_only = false);
  /// Ends the recording. Errors: `system`.
  [[nodiscard]] Result<void> settled();
  /// The pages that were recorded so far, or the working set of what was restored and not recorded:
  /// numbers from 0 on through all regions, each of which begins a page; each once.
  [[nodiscard]] std::vector<std::uint64_t> touched() const;

  /// Writes everything to an image, as write_image() does: the working set in a partition of its
  /// own, then the other pages that are not zero. Waits until everything is there. Errors: those of
  /// write_image() and wait(); `invalid_argument` (a page that was written meanwhile, a page in
  /// `touched` that does not exist or is there twice). Then nothing of it stays.
  [[nodiscard]] Result<ImageFacts> save(const std::string& path,
                                        const SaveOptions& options = {}) const;

  /// Waits until all of it is there. Errors: `timed_out` (by this deadline; loading goes on), and
  /// what ended the loading: `invalid_argument` (a chunk that was changed, with image, chunk and
  /// offset), `timed_out`, `unsupported`, `out_of_memory`, `system`.
  [[nodiscard]] Result<void> wait(Deadline deadline = Deadline::never()) const;
  /// Waits until the working set is there. Errors: the same.
  [[nodiscard]] Result<void> wait_for_working_set(Deadline deadline = Deadline::never()) const;
  [[nodiscard]] std::optional<Error> error() const;  ///< What ended the loading, if anything did.
  [[nodiscard]] RestoreReport report() const;        ///< At any time.

 private:
  explicit Snapshot(std::shared_ptr<State> state) noexcept;
  std::shared_ptr<State> state_;
};

}  // namespace gantry
