#pragma once  // image/snapshot/page_fetcher.hpp: reads what somebody waits for, and no more.

#include <span>
#include <thread>
#include <vector>

#include "engine/codec/codec.hpp"
#include "image/load/load_job.hpp"

namespace gantry::snapshot {

class PageLoader;

/// Pages of a chunk that lie together in the image.
struct Grain {
  std::size_t chunk = 0;
  std::size_t index = 0;  ///< In the chunk.
  friend bool operator==(const Grain&, const Grain&) = default;
};

/// Until what has come somebody waits for the next grain to fetch.
enum class Until : std::uint8_t { now, working_set, all };

/// A thread that reads the frame of a grain alone, beside the workers. While
/// nobody waits for anything it reads where the frames of packed chunks lie.
class PageFetcher {
 public:
  explicit PageFetcher(PageLoader& loader) : loader_(loader) {}

  /// Before start().
  [[nodiscard]] Result<void> prepare(FileIo& io);
  [[nodiscard]] Result<void> start();
  void cancel() noexcept;
  void join() noexcept;

 private:
  /// What is read of the file for one grain, or for one head.
  struct Read {
    Grain grain;
    Bytes bytes = 0;   // of what is wanted
    Bytes before = 0;  // read in front of it, up to a border
    Ticket ticket{};
    ByteSpan into{};  // all that is read
  };
  [[nodiscard]] Result<void> run();
  [[nodiscard]] Result<void> read_heads();
  [[nodiscard]] Result<void> fetch_until(Until until);
  [[nodiscard]] Result<void> fetch(std::span<const Grain> grains);
  [[nodiscard]] Result<void> need_heads(std::span<const Grain> grains);
  [[nodiscard]] Result<Read> begin(Grain grain, Bytes from, Bytes bytes, std::size_t slot);
  [[nodiscard]] Result<ConstByteSpan> finish(const Read& read);
  [[nodiscard]] Result<void> unpack(const Read& read, ConstByteSpan stored);
  [[nodiscard]] tl::unexpected<Error> bad(const Error& error, std::size_t chunk) const;

  PageLoader& loader_;
  std::unique_ptr<FileLane> lane_;
  std::vector<LoadMemory> buffers_;  // a read each
  LoadMemory raw_;
  std::vector<std::vector<std::byte>> heads_;  // of chunks; empty: not read, or not packed
  codec::Decoder decoder_;
  std::thread thread_;
};

}  // namespace gantry::snapshot
