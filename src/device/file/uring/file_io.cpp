#include "device/file/uring/file_io.hpp"

#include "core/base/os/uring_refusal.hpp"
#include "core/base/result.hpp"

#ifdef GANTRY_HAVE_LIBURING
#include <liburing.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "core/base/assert.hpp"
#include "device/file/file_queue.hpp"

namespace gantry {
namespace {

// Measured: docs/results/pipeline-files.md.
constexpr Bytes kReadBytes = Bytes{512} << 10;
constexpr Bytes kWriteBytes = Bytes{8} << 20;
constexpr unsigned kMostFlights = 16;  // direct
constexpr unsigned kMostBuffered = 8;
constexpr unsigned kMissesFollow = 64;
static_assert(kMostFlights <= FileWork::kMostUnderWay && kMostBuffered <= kMostFlights);
constexpr unsigned kEntries = 64;  // all pieces, as many cancellations, wake-up socket, pause

/// What a completion belongs to: a flight's number, or one of these.
constexpr std::uint64_t kBell = ~std::uint64_t{0};
constexpr std::uint64_t kTakenBack = kBell - 1;
constexpr std::uint64_t kPause = kBell - 2;

class Ring {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Ring>> open() {
    auto ring = std::make_shared<Ring>();
    io_uring_params params{};
    if (const int error = ::io_uring_queue_init_params(kEntries, &ring->ring_, &params); error != 0)
      return no_ring(-error);
    ring->is_open_ = true;
    closed_.load(std::memory_order_acquire);
    ::io_uring_ring_dontfork(&ring->ring_);
    // A ring may be made but not used: seccomp filters check each call.
    if (const int error = ::io_uring_enter(static_cast<unsigned>(ring->ring_.ring_fd), 0, 0, 0, {});
        error < 0)
      return no_ring(-error);
    if ((params.features & IORING_FEAT_RW_CUR_POS) != 0) return ring;  // came with READ and WRITE
    return fail(Code::unsupported, "uring: this kernel's io_uring has no plain reads and writes",
                "use a kernel of at least 5.6");
  }
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (!is_open_) return;
    closed_.fetch_add(1, std::memory_order_release);
    ::io_uring_queue_exit(&ring_);
  }

  /// There is room: kEntries are as many as can be used between two submissions.
  [[nodiscard]] io_uring_sqe* entry() noexcept {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    GANTRY_ASSERT(entry != nullptr);
    return entry;
  }
  /// Submits, and waits until something has ended.
  void pass() noexcept {
    const int answer = ::io_uring_submit_and_wait(&ring_, 1);
    // Short of memory for the moment, or full of completions: try again.
    GANTRY_ASSERT(answer >= 0 || answer == -EINTR || answer == -EAGAIN || answer == -EBUSY ||
                  answer == -ENOMEM);
  }
  template <class Take>
  void each_ended(const Take& take) {
    io_uring_cqe* ended = nullptr;
    while (::io_uring_peek_cqe(&ring_, &ended) == 0) {
      const std::uint64_t of = ended->user_data;
      const int answer = ended->res;
      ::io_uring_cqe_seen(&ring_, ended);
      take(of, answer);
    }
  }

 private:
  // A ring is mapped where another thread has closed one. The kernel keeps the two apart;
  // ThreadSanitizer, which does not see liburing's system calls, goes by this.
  static inline std::atomic<unsigned> closed_{0};

  io_uring ring_{};
  bool is_open_ = false;
};

/// Runs on the lane's thread: pieces of the oldest transfers first, as many in flight as allowed.
class Service {
 public:
  Service(std::shared_ptr<Ring> ring, FileQueue& queue) noexcept
      : ring_(std::move(ring)), queue_(queue) {}

  void run() {
    for (;;) {
      const bool is_closed = queue_.is_closed();  // asked before taking: after it nothing comes
      works_.splice(works_.end(), queue_.take());
      if (queue_.is_cancelled()) cancel();
      start();
      if (is_closed && works_.empty()) return;
      hear_bell();
      ring_->pass();
      ring_->each_ended([this](std::uint64_t of, int answer) { take(of, answer); });
    }
  }

 private:
  struct Flight {
    std::shared_ptr<FileWork> work;  // null: free
    FilePiece piece;
    bool is_first = true;  ///< For a read: only from the page cache.
    bool is_cancelled = false;
  };

  void start() {
    std::size_t free = 0;
    for (auto at = works_.begin(); at != works_.end();) {
      const bool is_direct = (*at)->transfer().file->alignment() > 1;
      while (free < (is_direct ? flights_.size() : kMostBuffered)) {
        if (flights_[free].work != nullptr) {
          ++free;
          continue;
        }
        const auto piece = (*at)->next();
        if (!piece) break;
        send(free, *at, *piece, !is_direct && tries_cache());
      }
      const auto work = at++;
      if (!(*work)->is_over()) continue;
      queue_.end(*work);
      works_.erase(work);
    }
  }

  // After a miss the next pieces are most likely missing, too, and each try costs a hand-over.
  bool tries_cache() noexcept {
    if (misses_ == 0 || !has_workers_) return true;
    --misses_;
    return false;
  }

  void send(std::size_t number, const std::shared_ptr<FileWork>& work, const FilePiece& piece,
            bool is_first) {
    flights_[number] = {work, piece, is_first};
    const FileTransfer& transfer = work->transfer();
    io_uring_sqe* const entry = ring_->entry();
    std::byte* const memory = transfer.memory.data() + piece.at;
    const auto size = static_cast<unsigned>(piece.size);
    const std::uint64_t offset = transfer.offset + piece.at;
    if (transfer.kind == FileTransfer::Kind::write)
      ::io_uring_prep_write(entry, transfer.file->descriptor(), memory, size, offset);
    else
      ::io_uring_prep_read(entry, transfer.file->descriptor(), memory, size, offset);
    // Data in the page cache is copied here and now. For the rest the kernel's workers wait, each
    // for its piece. For direct reads nobody waits: the device answers.
    if (is_first && transfer.kind == FileTransfer::Kind::read)
      entry->rw_flags = RWF_NOWAIT;
    else if (transfer.kind == FileTransfer::Kind::read && transfer.file->alignment() == 1)
      entry->flags |= IOSQE_ASYNC;
    entry->user_data = number;
  }

  void take(std::uint64_t of, int answer) {
    if (of == kBell) {
      is_hearing_ = false;
      drain(queue_.wake_receiver());
    } else if (of == kTakenBack) {
      if (answer == -EALREADY || answer == -ENOENT) pause();
    } else if (of == kPause) {
      is_pausing_ = false;
      for (std::size_t i = 0; i < flights_.size(); ++i)
        if (flights_[i].is_cancelled) take_back(i);
    } else {
      Flight& flight = flights_[of];
      const Flight ended = std::exchange(flight, {});
      const bool is_missing = answer == -EAGAIN || answer == -EOPNOTSUPP;
      const bool is_refused = answer == -ECANCELED && !ended.is_cancelled;
      if (is_refused) has_workers_ = false;
      if (!is_refused && !(ended.is_first && is_missing && !ended.is_cancelled)) {
        ended.work->ended(ended.piece, answer);
      } else if (has_workers_) {
        misses_ = kMissesFollow;
        send(of, ended.work, ended.piece, false);
      } else {
        ended.work->ended(ended.piece, move_now(ended.work->transfer(), ended.piece));
      }
    }
  }

  void cancel() {
    for (const auto& work : works_) work->stop();
    for (std::size_t i = 0; i < flights_.size(); ++i)
      if (flights_[i].work != nullptr && !std::exchange(flights_[i].is_cancelled, true))
        take_back(i);
  }

  // A piece that a worker of the kernel's has begun ends by itself, or never. Between the worker's
  // first look and its waiting (for a pipe) the kernel finds the piece with neither: it is asked
  // again, a moment later.
  void take_back(std::size_t number) noexcept {
    io_uring_sqe* const entry = ring_->entry();
    ::io_uring_prep_cancel64(entry, number, 0);
    entry->user_data = kTakenBack;
  }

  void pause() {
    const bool is_left = std::any_of(flights_.begin(), flights_.end(),
                                     [](const Flight& flight) { return flight.is_cancelled; });
    if (!is_left || std::exchange(is_pausing_, true)) return;
    io_uring_sqe* const entry = ring_->entry();
    ::io_uring_prep_timeout(entry, &pause_, 0, 0);
    entry->user_data = kPause;
  }

  void hear_bell() {
    if (is_hearing_) return;
    is_hearing_ = true;
    io_uring_sqe* const entry = ring_->entry();
    ::io_uring_prep_poll_add(entry, queue_.wake_receiver(), POLLIN);
    entry->user_data = kBell;
  }

  const std::shared_ptr<Ring> ring_;
  FileQueue& queue_;
  FileQueue::Works works_;  // that have not ended
  std::array<Flight, kMostFlights> flights_{};
  bool is_hearing_ = false;
  bool is_pausing_ = false;
  __kernel_timespec pause_{0, 1'000'000};
  unsigned misses_ = 0;  // pieces that go to workers without a look into the cache
  // workers are threads of the user's, who may be at his limit (ulimit -u)
  bool has_workers_ = true;
};

class UringFileIo final : public FileIo {
 public:
  explicit UringFileIo(std::shared_ptr<FileIo> writer) noexcept : writer_(std::move(writer)) {}
  std::string_view name() const noexcept override { return "io_uring"; }
  std::string about() const override {
    return fmt::format("io_uring: {} reads of {} KiB in flight; writes by {}", kMostBuffered,
                       kReadBytes >> 10, writer_->about());
  }
  Result<std::unique_ptr<FileLane>> open_lane(FileTransfer::Kind serving) override {
    // Buffered writes of a file wait for each other, whoever asks for them; by the kernel's workers
    // each also costs a hand-over.
    if (serving == FileTransfer::Kind::write) return writer_->open_lane(serving);
    return guarded([]() -> Result<std::unique_ptr<FileLane>> {
      GANTRY_ASSIGN(auto queue, FileQueue::make(kReadBytes, kWriteBytes));
      GANTRY_ASSIGN(auto ring, Ring::open());
      return ServedFileLane::open(std::move(queue), [ring = std::move(ring)](FileQueue& asks) {
        Service(ring, asks).run();
      });
    });
  }

 private:
  const std::shared_ptr<FileIo> writer_;
};

}  // namespace

Result<std::shared_ptr<FileIo>> make_uring_file_io() {
  return guarded([]() -> Result<std::shared_ptr<FileIo>> {
    GANTRY_TRY(Ring::open());
    GANTRY_ASSIGN(auto writer, make_plain_file_io());
    return std::make_shared<UringFileIo>(std::move(writer));
  });
}

}  // namespace gantry

#else

namespace gantry {

Result<std::shared_ptr<FileIo>> make_uring_file_io() {
  return not_in_this_build();
}

}  // namespace gantry

#endif
