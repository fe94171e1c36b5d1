#pragma once  // trace/ring_files.hpp: the ring files of one folder, read while they are written.

#include <deque>
#include <functional>
#include <map>

#include "core/base/os/fd.hpp"
#include "core/trace/ring_file.hpp"

namespace gantry::trace {

/// What the header says that changes. Read in one piece, but not in one moment.
struct RingProgress {
  std::uint64_t head = 0;
  std::uint64_t channel = 0;
  std::uint64_t closed = 0;
  std::uint64_t waits_since = 0;
  std::uint64_t waits_for = 0;
};

/// Copies of the cells of some events, one behind the other.
struct RingCopies {
  std::uint64_t first = 0;  ///< The number of the first of them.
  ConstByteSpan cells;
  std::uint64_t head_after = 0;  ///< As read behind the copying.
};

/// Says which events of a ring are to be copied next, and keeps those that are whole. It reads no
/// file, and believes nothing. No event is taken twice; those that were overwritten before they
/// were copied, or were never completed, are lost.
class RingReader {
 public:
  /// Of a file's first kHeaderBytes and its size. Errors: `invalid_argument`.
  [[nodiscard]] static Result<RingReader> of(ConstByteSpan start, Bytes file_bytes);

  [[nodiscard]] std::uint64_t run() const noexcept { return run_; }
  [[nodiscard]] std::uint64_t start_time() const noexcept { return ring_.start_time; }
  [[nodiscard]] std::int32_t pid() const noexcept { return ring_.track.pid; }
  [[nodiscard]] std::uint64_t cells() const noexcept { return cells_; }
  /// Nothing will come that was not taken.
  [[nodiscard]] bool is_over() const noexcept { return progress_.closed == 1 && is_up_to_date(); }

  /// The first event to copy, of those before `now.head`. Errors: `invalid_argument`: the head went
  /// back.
  [[nodiscard]] Result<std::uint64_t> begin(const RingProgress& now);
  /// `is_last`: does not wait for who is in the middle of writing an event. `room`: for how many
  /// events there is memory; those beyond are lost.
  void take(const RingCopies& copies, bool is_last, std::uint64_t& room);
  /// All that was taken. Once.
  [[nodiscard]] DecodedRing finish(const TimeScale& time);

 private:
  [[nodiscard]] bool is_up_to_date() const noexcept { return next_ == progress_.head; }

  DecodedRing ring_;
  std::uint64_t run_ = 0;
  std::uint64_t cells_ = 0;
  bool has_ticks_ = false;
  RingProgress progress_;
  std::uint64_t next_ = 0;  // the first event that was not taken
  std::deque<Ring::Event> taken_;
};

/// Process and start, of the name of a ring file.
struct RingOwner {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  friend auto operator<=>(const RingOwner&, const RingOwner&) = default;
};

/// PID-START-NUMBER. Nothing: it is not such a name.
[[nodiscard]] std::optional<RingOwner> owner_of(std::string_view file);

/// Keeps each file open, so that one that is removed is read to its end.
class RingFiles {
 public:
  /// Reads what was written since the last call, of the files of `names` and of earlier ones. Of
  /// another recording than `run`: nothing. See RingReader::take().
  void drain(int folder, const std::vector<std::string>& names, std::uint64_t run, bool is_last,
             std::uint64_t& room);

  /// What is open; drain() has read all that will ever be there.
  void close() noexcept;

  using RingTaker = std::function<void(const RingOwner&, DecodedRing)>;
  using ErrorTaker = std::function<void(const std::string& file, const Error&)>;
  /// Once. Of a file that broke while it was read: both.
  void finish(std::uint64_t run, const TimeScale& time, const RingTaker& ring,
              const ErrorTaker& error);

 private:
  struct File {
    RingOwner owner;
    Fd file;
    std::optional<RingReader> reader;
    std::optional<Error> error;  // final where there is a reader
  };
  [[nodiscard]] static Result<void> open(int folder, const std::string& name, File& file);
  [[nodiscard]] Result<void> read(File& file, bool is_last, std::uint64_t& room);
  [[nodiscard]] Result<ConstByteSpan> copy(const File& file, std::uint64_t first,
                                           std::uint64_t head);

  std::map<std::string, File> files_;
  std::vector<std::byte> copied_;
};

}  // namespace gantry::trace
