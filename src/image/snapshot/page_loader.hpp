#pragma once  // snapshot/page_loader.hpp: brings a snapshot's pages from its image.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "image/codec/codec.hpp"
#include "image/load/load_job.hpp"
#include "image/snapshot/fault_source.hpp"
#include "image/snapshot/memory.hpp"
#include "image/snapshot/tables.hpp"

namespace gantry::snapshot {

class PageFetcher;

/// Pages of a chunk that lie together in the image.
struct Grain {
  std::size_t chunk = 0;
  std::size_t index = 0;  ///< In the chunk.
  friend bool operator==(const Grain&, const Grain&) = default;
};

/// Until what has come somebody waits for the next grain to fetch.
enum class Until : std::uint8_t { now, working_set, all };

/// Loads the working set, then the rest, chunk by chunk; what somebody waits for is fetched beside
/// that, whoever has its chunk. Pages are made grain by grain: 16 that lie together in the image.
///   P1  A grain is claimed once; its claimer checks its pages and makes them.
///   P2  A grain is `there` after all its pages were made.
///   P3  Whoever waits for a page puts it into waiting_, and then says so in the grain's state,
///       both under the lock. Who makes the grain `there` sees that, and looks under the lock, or
///       is seen: nobody is forgotten.
///   P4  Once has_ended_ is set no chunk is taken, and what is not there becomes poison.
class PageLoader final : public LoadJob {
 public:
  PageLoader(const Image& image, const Memory& memory, Checked tables,
             const RestoreOptions& options);
  ~PageLoader() override;

  /// `faults`: makes pages in the mapping; null: they are written to the memfd. `over`: an event
  /// that is rung when all is there.
  [[nodiscard]] Result<void> start(const Image& image, FaultSource* faults, int over);
  /// Loads no more, and joins. What is not there stays as it is.
  void stop() noexcept;

  enum class Answer : std::uint8_t { map, wait, never };
  /// What becomes of a page that is not mapped and was touched. `map`: it is there, or one of
  /// zeros, which may have been made already and unmapped (MADV_DONTNEED). `wait`: it is mapped
  /// when its grain is there, which is fetched.
  [[nodiscard]] Answer touched(std::uint64_t page);

  enum class What : std::uint8_t { working_set, all };
  [[nodiscard]] Result<void> wait(What what, Deadline deadline);
  [[nodiscard]] bool is_whole() const noexcept { return has(What::all); }
  [[nodiscard]] std::optional<Error> error();
  void add_to(RestoreReport& report);
  [[nodiscard]] std::span<const std::uint64_t> working_set() const noexcept {
    return map_.touched();
  }

  // ---- for the workers
  [[nodiscard]] std::optional<Turn> take(Worker& worker, bool is_idle) override;
  [[nodiscard]] Result<void> there(Worker& worker, const Came& came) override;
  void end(Error error) noexcept override;

  // ---- for the fetcher
  /// Up to so many grains that somebody waits for. Waits for some until this has come, or loading
  /// has ended: then there may be none.
  [[nodiscard]] std::vector<Grain> take_urgent(std::size_t most, Until until);
  /// Makes the pages from there on, unless somebody has. `raw` was read for that, of `stored`
  /// bytes.
  [[nodiscard]] Result<void> fetched(Grain first, ConstByteSpan raw, Bytes stored);
  [[nodiscard]] const std::vector<std::size_t>& order() const noexcept { return order_; }

 private:
  // Bits of a grain's state.
  static constexpr std::uint8_t kClaimed = 1, kThere = 2, kWaited = 4;
  [[nodiscard]] PageMap::Place place_of_grain(Grain grain) const noexcept;
  [[nodiscard]] Grain grain_of(PageMap::Place place) const noexcept;
  [[nodiscard]] std::atomic<std::uint8_t>& state_of(Grain grain) noexcept;
  [[nodiscard]] std::uint64_t pages_of(Grain grain) const noexcept;
  [[nodiscard]] bool has(What what) const noexcept {
    return what == What::all ? there_ == grains_ : first_there_ == first_grains_;
  }
  void leave_alone(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool claim(Grain grain) noexcept;
  /// Errors: a page has not the CRC with which it was saved.
  [[nodiscard]] Result<void> check_pages(Grain grain, ConstByteSpan raw) const;
  [[nodiscard]] Result<void> make_pages(Grain grain, ConstByteSpan raw);
  [[nodiscard]] Result<void> mark(Grain grain);
  [[nodiscard]] Result<void> make(Grain first, ConstByteSpan raw);
  void poison() noexcept;

  const Memory& memory_;
  const Checked tables_;
  const PageMap& map_ = tables_.pages;
  const RestoreOptions options_;
  FaultSource* faults_ = nullptr;
  int over_ = -1;
  std::vector<std::size_t> order_;        // of chunks
  std::vector<std::size_t> first_grain_;  // of each chunk of order_, which follow each other
  std::size_t grains_ = 0;                // how many there are
  std::size_t first_grains_ = 0;          // how many the working set has
  std::size_t first_chunks_ = 0;          // the same of chunks, the first of order_
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::unique_ptr<PageFetcher> fetcher_;

  // Changed past the lock, since a thread that makes pages must not wait for another.
  std::vector<std::atomic<std::uint8_t>> states_;  // of grains, in the order of chunks
  std::atomic<std::size_t> there_ = 0;             // grains
  std::atomic<std::size_t> first_there_ = 0;       // of the working set
  std::atomic<std::uint64_t> pages_there_ = 0;
  std::atomic<bool> has_ended_ = false;  // by an error, or stop()

  std::mutex mutex_;
  std::condition_variable moved_;   // for who waits: the working set, all, an error
  std::condition_variable urged_;   // for the fetcher
  std::condition_variable spared_;  // for workers that let the working set, or its user, go first
  bool wants_all_ = false;          // somebody waits for it
  std::size_t next_ = 0;            // of order_
  std::deque<Grain> urgent_;        // may have been claimed meanwhile
  std::vector<std::uint64_t> waiting_;  // pages whose grain is not there
  std::optional<Error> error_;
  RestoreReport report_;
  DeadMemory dead_;
};

}  // namespace gantry::snapshot
