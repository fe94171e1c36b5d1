#pragma once  // load/load_job.hpp: the threads that read chunks of an image, unpack and check them,
              // whatever becomes of the bytes.

#include <functional>
#include <gantry/image.hpp>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/os/fork.hpp"
#include "image/codec/codec.hpp"

namespace gantry {

/// Memory, and what keeps it.
struct LoadMemory {
  ByteSpan bytes;
  std::shared_ptr<const void> keep;
};
/// At least `size` bytes that begin a page: a block of the pool's, or a region of its own.
[[nodiscard]] Result<LoadMemory> take_memory(const std::optional<Pool>& pool, Bytes size);

/// What the workers of a loading work for. A class that derives from it says which chunk comes next
/// and what becomes of its bytes, and calls join() before it goes.
class LoadJob {
 public:
  /// What a worker has for itself.
  struct Worker {
    std::size_t number = 0;
    std::shared_ptr<FileLane> lane;
    std::vector<LoadMemory> buffers;  // for what is read, as many as it reads at a time
    std::vector<LoadMemory> raw;      // in turn, for what is unpacked and has no place of its own
    std::size_t unpacked = 0;         // chunks that went to `raw`
    bool gives_way = false;           // to other threads of the machine, from now on
    codec::Decoder decoder;
  };
  /// A chunk to read.
  struct Turn {
    std::size_t chunk = 0;
    /// Where its stored bytes go, as many as direct reads write; no memory: to the worker's.
    LoadMemory place = {};
    /// The most of it that is under way at a time, of one chunk of the worker then, so that a read
    /// beside it waits for little; 0: as much as serves the disk.
    Bytes piece = 0;
  };
  /// A chunk that was read. Its bytes stay until settle(), if they are not at Turn::place.
  struct Came {
    std::size_t chunk = 0;
    ByteSpan stored;
    std::chrono::nanoseconds waited{};
  };

  LoadJob(const Image& image, Deadline deadline);
  virtual ~LoadJob() { GANTRY_DEBUG_ASSERT(threads_.empty()); }  // join() was called
  LoadJob(const LoadJob&) = delete;
  LoadJob& operator=(const LoadJob&) = delete;

  // ---- for workers
  /// The next chunk to load. Nothing: none is left for this worker, or none before what it has
  /// under way (`is_idle`: it has nothing) has come, or the loading has ended.
  [[nodiscard]] virtual std::optional<Turn> take(Worker& worker, bool is_idle) = 0;
  /// Unpacks a chunk, checks its bytes, and takes them where they belong.
  [[nodiscard]] virtual Result<void> there(Worker& worker, const Came& came) = 0;
  /// Waits for what there() has left under way. Its worker calls it before it waits for anything
  /// else.
  [[nodiscard]] virtual Result<void> settle(const Worker&) { return {}; }
  /// Ends the loading; the first error stays.
  virtual void end(Error error) noexcept = 0;

  const std::string path;
  const std::vector<ImageTensor> tensors;
  const std::vector<ImagePartition> partitions;
  const std::vector<ImageChunk> chunks;
  const Deadline ends;  // when it ends at the latest
  const ForkGuard fork_guard;
  std::shared_ptr<const OpenFile> file;
  std::vector<Worker> workers;

 protected:
  /// Opens the image's file once more, directly if that can be. Returns how it is read.
  [[nodiscard]] Result<std::string> open_file(const Image& image);
  /// Lets as many workers as are asked for begin (0: one a CPU), and as are worth it, each with a
  /// lane of its own. `chunks_of_it`: those that are loaded; `has_places`: each has a place;
  /// `ahead`: chunks that a worker reads at a time, 0: as many as serve the disk; `reads_pieces`:
  /// two a CPU, since a worker that reads piece by piece does nothing else meanwhile; `registered`:
  /// prepares memory from which devices copy, of which each worker has that of one chunk more.
  struct Start {
    std::shared_ptr<FileIo> file_io;
    std::optional<Pool> pool;
    unsigned workers = 0;
    bool has_places = true;
    std::size_t ahead = 0;
    bool reads_pieces = false;
    std::function<LoadMemory(LoadMemory)> registered = {};
  };
  [[nodiscard]] Result<void> start(const Start& how, std::span<const std::size_t> chunks_of_it);
  [[nodiscard]] bool is_packed(std::span<const std::size_t> those_chunks) const;
  /// Ends what lanes wait for.
  void cancel_lanes() noexcept;
  void join() noexcept;

 private:
  [[nodiscard]] Result<void> make_worker(const Start& how, FileIo& io, std::size_t ahead,
                                         bool is_packed);
  std::vector<std::thread> threads_;
};

}  // namespace gantry
