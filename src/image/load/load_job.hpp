#pragma once  // image/load/load_job.hpp: the threads that read chunks of an image, unpack and check
              // them, whatever becomes of the bytes.

#include <gantry/image/loading.hpp>
#include <thread>

#include "base/fork.hpp"

namespace gantry {

class DeviceCopies;

/// Memory, and what keeps it.
struct LoadMemory {
  ByteSpan bytes;
  std::shared_ptr<const void> keep;
};
/// At least `size` bytes that begin a page: a block of the pool's, or a region of its own.
[[nodiscard]] Result<LoadMemory> take_memory(const std::optional<Pool>& pool, Bytes size);

/// What the workers of a loading work for. Whoever derives from it says which chunk comes next and
/// what becomes of its bytes, and calls join() before it goes.
class LoadJob {
 public:
  /// What a worker has for itself.
  struct Worker {
    std::shared_ptr<FileLane> lane;
    std::vector<LoadMemory> buffers;  // for what is read, as many as it reads at a time
    std::vector<LoadMemory> raw;      // in turn, for what is unpacked and has no place of its own
  };

  LoadJob(const Image& image, Deadline deadline);
  virtual ~LoadJob() = default;
  LoadJob(const LoadJob&) = delete;
  LoadJob& operator=(const LoadJob&) = delete;

  // ---- for workers
  /// The next chunk to load; nothing: none is left for this worker, or the loading has ended.
  [[nodiscard]] virtual std::optional<std::size_t> take(std::size_t worker) = 0;
  /// Where the raw bytes of a chunk go; no memory: they stay in the worker's. The memory goes on
  /// for as much as direct reads write.
  [[nodiscard]] virtual LoadMemory place_of(std::size_t chunk, Bytes bytes) const = 0;
  /// Its bytes are checked; those that have no place are valid during the call.
  [[nodiscard]] virtual Result<void> there(std::size_t chunk, ConstByteSpan raw,
                                           std::chrono::nanoseconds waited,
                                           std::chrono::nanoseconds unpacked) = 0;
  /// The most of this chunk that is under way at a time, of one chunk of a worker then, so that who
  /// reads beside it waits for little; 0: as much as serves the disk.
  [[nodiscard]] virtual Bytes piece_of(std::size_t) const { return 0; }
  /// Called by each worker once, when all is made that it has read before the first chunk with
  /// pieces.
  virtual void begin_pieces() {}
  /// True: a chunk's bytes come by frame(), which compares their CRC, and there() has none of them.
  [[nodiscard]] virtual bool takes_frames() const { return false; }
  /// Raw bytes from `from` of the chunk on; valid during the call.
  [[nodiscard]] virtual Result<void> frame(std::size_t /*chunk*/, Bytes /*from*/, ConstByteSpan) {
    return {};
  }
  /// Waits for what there() has left under way. Its worker calls it before it calls there() again,
  /// and before it waits for anything else; until then the bytes stay.
  [[nodiscard]] virtual Result<void> settle(std::size_t /*chunk*/) { return {}; }
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
  /// two a CPU, since a worker that reads piece by piece does nothing else meanwhile; `copies`:
  /// copies what has no place to devices, so each worker has memory for one chunk more.
  struct Start {
    std::shared_ptr<FileIo> file_io;
    std::optional<Pool> pool;
    unsigned workers = 0;
    bool has_places = true;
    std::size_t ahead = 0;
    bool reads_pieces = false;
    DeviceCopies* copies = nullptr;
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
