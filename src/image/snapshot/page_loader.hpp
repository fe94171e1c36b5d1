#pragma once  // image/snapshot/page_loader.hpp: brings a snapshot's pages from its image.

#include <condition_variable>
#include <deque>
#include <mutex>

#include "image/load/load_job.hpp"
#include "image/snapshot/fault_source.hpp"
#include "image/snapshot/memory.hpp"

namespace gantry::snapshot {

/// Loads the working set, then the rest; a chunk with a page that somebody waits for comes next.
///   P1  A chunk is taken once; its taker makes its pages, from bytes that were checked.
///   P2  is_there_ of a chunk is set, under the lock, after all its pages were made.
///   P3  A page that somebody waits for is in waiting_ until its chunk is there: it is looked for
///       under the lock under which P2 happens, so that nobody is forgotten.
///   P4  Once error_ is set no chunk is taken, and what is not there becomes poison.
class PageLoader final : public LoadJob {
 public:
  PageLoader(const Image& image, const Memory& memory, PageMap map, const RestoreOptions& options);
  ~PageLoader() override;

  /// `faults`: makes pages in the mapping; null: they are written to the memfd. `over`: an event
  /// that is rung when all is there.
  [[nodiscard]] Result<void> start(const Image& image, FaultSource* faults, int over);
  /// Loads no more, and joins. What is not there stays as it is.
  void stop() noexcept;

  enum class Answer : std::uint8_t { map, wait, never };
  /// What becomes of a page that is not mapped and was touched. `map`: it is there, or one of
  /// zeros, which may have been made already and unmapped (MADV_DONTNEED). `wait`: it is mapped
  /// when its chunk is there, and that comes next.
  [[nodiscard]] Answer touched(std::uint64_t page);
  /// While true, pages are made and not mapped, so that each raises a fault.
  void leave_unmapped(bool yes) noexcept { leaves_unmapped_.store(yes, std::memory_order_relaxed); }

  enum class What : std::uint8_t { working_set, all };
  [[nodiscard]] Result<void> wait(What what, Deadline deadline);
  [[nodiscard]] bool is_whole();
  [[nodiscard]] std::optional<Error> error();
  void add_to(RestoreReport& report);

  [[nodiscard]] std::optional<std::size_t> take(std::size_t worker) override;
  [[nodiscard]] LoadMemory place_of(std::size_t, Bytes) const override { return {}; }
  [[nodiscard]] Result<void> there(std::size_t chunk, ConstByteSpan raw,
                                   std::chrono::nanoseconds waited,
                                   std::chrono::nanoseconds unpacked) override;
  void end(Error error) noexcept override;

 private:
  struct Place {
    Part part{};
    std::uint64_t at = 0;
    std::uint64_t pages = 0;
  };
  [[nodiscard]] Place place_of_chunk(std::size_t chunk) const noexcept;
  [[nodiscard]] std::size_t chunk_of(PageMap::Place place) const noexcept;
  [[nodiscard]] bool has(What what) const noexcept {
    return what == What::all ? there_ == order_.size() : first_there_ == first_chunks_;
  }
  [[nodiscard]] Result<void> make_pages(std::size_t chunk, ConstByteSpan raw);
  [[nodiscard]] std::vector<std::uint64_t> mark(std::size_t chunk);
  void poison();

  const Memory& memory_;
  const PageMap map_;
  const RestoreOptions options_;
  FaultSource* faults_ = nullptr;
  int over_ = -1;
  std::vector<std::size_t> order_;  // of chunks
  std::size_t first_chunks_ = 0;    // of order_, the working set's
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::atomic<bool> leaves_unmapped_{false};  // relaxed: both ways a page that is touched comes

  std::mutex mutex_;
  std::condition_variable moved_;       // for who waits
  std::condition_variable urged_;       // for the worker that takes only what is urgent
  std::size_t next_ = 0;                // of order_
  std::size_t taken_ = 0;               // how many
  std::size_t there_ = 0;               // how many
  std::size_t first_there_ = 0;         // how many of the working set
  std::vector<bool> is_taken_;          // chunks
  std::vector<bool> is_there_;          // chunks
  std::deque<std::size_t> urgent_;      // chunks that are not taken
  std::vector<std::uint64_t> waiting_;  // pages whose chunk is not there
  std::optional<Error> error_;
  RestoreReport report_;
};

}  // namespace gantry::snapshot
