#pragma once  // image/load/load_state.hpp: what the workers of a loading and those who wait share.

#include <condition_variable>
#include <gantry/image/loading.hpp>
#include <map>
#include <mutex>
#include <thread>

#include "base/fork.hpp"

namespace gantry {

/// Memory, and what keeps it.
struct LoadMemory {
  ByteSpan bytes;
  std::shared_ptr<const void> keep;
};
/// At least `size` bytes that begin a page: a block of the pool's, or a region of its own.
[[nodiscard]] Result<LoadMemory> take_memory(const std::optional<Pool>& pool, Bytes size);

///   L1  A chunk is in order_ once; its taker is the only one who writes to its place.
///   L2  is_there_ of a chunk is set, under the lock, after all its bytes are written and checked.
///   L3  Once error_ is set no chunk is taken.
struct GANTRY_LOCAL ImageLoading::State {
  State(const Image& image, const LoadOptions& options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Opens the file, takes memory and lays the order down: of all chunks, or of so many of them,
  /// spread evenly.
  [[nodiscard]] Result<void> prepare(const Image& image, std::optional<double> share = {});
  /// Starts the workers, each with a lane of its own.
  [[nodiscard]] Result<void> start();

  // ---- for workers
  /// The next chunk to load; nothing: none is left, or the loading has ended.
  [[nodiscard]] std::optional<std::size_t> take();
  /// Where its raw bytes go. The memory goes on for as much as direct reads write.
  [[nodiscard]] LoadMemory place_of(std::size_t chunk, Bytes bytes) const;
  void there(std::size_t chunk, std::chrono::nanoseconds waited, std::chrono::nanoseconds unpacked);
  /// Ends the loading; the first error stays.
  void end(Error error) noexcept;

  const std::string path;
  const std::vector<ImageTensor> tensors;
  const std::vector<ImagePartition> partitions;
  const std::vector<ImageChunk> chunks;
  const LoadOptions options;
  const ForkGuard fork_guard;
  std::shared_ptr<const OpenFile> file;
  std::vector<std::shared_ptr<FileLane>> lanes;  // one a worker
  std::vector<LoadMemory> buffers;               // for stored bytes, some a worker
  std::vector<std::thread> threads;

  [[nodiscard]] Result<LoadedTensor> wait_for(std::string_view tensor, Deadline deadline);
  [[nodiscard]] Result<void> wait_for_all(Deadline deadline);
  [[nodiscard]] LoadReport report();
  /// Of a loading of some chunks that has ended well: what all would have taken.
  [[nodiscard]] std::chrono::nanoseconds time_of_all();

 private:
  [[nodiscard]] Result<void> open_file(const Image& image);
  [[nodiscard]] Result<void> take_places();
  [[nodiscard]] Result<void> lay_order();
  void thin_out(double share);
  [[nodiscard]] Result<const ImageTensor*> find(std::string_view tensor) const;
  [[nodiscard]] std::pair<std::size_t, std::size_t> chunks_of(const ImageTensor& tensor) const;
  template <class IsSo>
  [[nodiscard]] bool wait_until(std::unique_lock<std::mutex>& lock, Deadline deadline,
                                const IsSo& is_so);

  std::map<std::string_view, std::size_t> by_name_;
  std::vector<bool> is_wanted_;     // partitions
  std::vector<LoadMemory> places_;  // of partitions; those that are not loaded have none
  std::vector<std::size_t> order_;  // of chunks
  std::size_t all_chunks_ = 0;      // that are wanted, in order_ or not
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();

  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t taken_ = 0;                       // of order_
  std::size_t there_ = 0;                       // how many
  std::vector<bool> is_there_;                  // chunks
  std::vector<std::chrono::nanoseconds> when_;  // each was there, since began_
  std::optional<Error> error_;
  LoadReport report_;
};

}  // namespace gantry
