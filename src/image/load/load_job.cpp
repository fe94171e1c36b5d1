#include "image/load/load_job.hpp"

#include <fcntl.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/os/disown.hpp"
#include "core/base/os/numa_nodes.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/text_lines.hpp"
#include "image/tables.hpp"

namespace gantry {
namespace {

constexpr unsigned kMostWorkers = 8;

template <class Thing>
std::vector<Thing> copy_of(std::span<const Thing> things) {
  return {things.begin(), things.end()};
}

using Clock = std::chrono::steady_clock;

// Chunks that each worker reads at a time into a buffer each.
constexpr std::size_t kAheadPacked = 4;
// The same into their places: all together as many as the disk takes.
constexpr std::size_t ahead_in_place(std::size_t workers) noexcept {
  return std::max<std::size_t>(kAheadPacked, 32 / workers);
}

/// Reads chunks ahead in one of the threads of a loading. While the job unpacks a chunk, the next
/// ones are on their way.
class LoadWorker {
 public:
  LoadWorker(LoadJob& job, LoadJob::Worker& own, std::size_t ahead)
      : job_(job), own_(own), ahead_(ahead) {}

  Result<void> run() {
    for (;;) {
      while (may_begin()) {
        GANTRY_ASSIGN(const bool has_begun, begin_next());
        if (!has_begun) break;
      }
      if (flights_.empty()) return job_.settle(own_);
      GANTRY_TRY(finish(flights_.front()));
      flights_.pop_front();
    }
  }

 private:
  struct Flight {
    std::size_t chunk = 0;
    Bytes stored = 0;
    LoadMemory to;    // for all that is read
    Bytes piece = 0;  // that is read at a time
    Bytes asked = 0;  // so far
    Ticket ticket{};  // of the last piece
  };

  // Nothing behind a chunk that is read piece by piece.
  [[nodiscard]] bool may_begin() const noexcept {
    if (flights_.empty()) return true;
    const Flight& last = flights_.back();
    return flights_.size() < ahead_ && last.piece >= last.to.bytes.size();
  }

  Result<void> ask(Flight& flight) {
    GANTRY_DEBUG_ASSERT(flight.asked < flight.to.bytes.size());
    const ByteSpan into = flight.to.bytes.subspan(
        flight.asked, std::min(flight.piece, flight.to.bytes.size() - flight.asked));
    GANTRY_ASSIGN(flight.ticket, own_.lane->submit({FileTransfer::Kind::read, job_.file,
                                                    job_.chunks[flight.chunk].offset + flight.asked,
                                                    into, flight.to.keep}));
    flight.asked += into.size();
    return {};
  }

  // False: nothing is left.
  Result<bool> begin_next() {
    if (job_.ends.passed())
      return fail(Code::timed_out, job_.path + ": it was not loaded when time was up",
                  "allow more time");
    auto turn = job_.take(own_, flights_.empty());
    if (!turn) return false;
    const Bytes stored = job_.chunks[turn->chunk].stored_bytes;
    const Bytes bytes = image::up_to(stored, job_.file->alignment());
    LoadMemory to = std::move(turn->place);
    if (to.bytes.empty()) {
      to = own_.buffers[begun_++ % own_.buffers.size()];
      to.bytes = to.bytes.first(bytes);
    }
    flights_.push_back({turn->chunk, stored, to, turn->piece != 0 ? turn->piece : bytes});
    GANTRY_TRY(ask(flights_.back()));
    return true;
  }

  Result<void> finish(Flight& flight) {
    if (!own_.lane->is_over(flight.ticket)) GANTRY_TRY(job_.settle(own_));
    const auto began = Clock::now();
    auto read = own_.lane->wait(flight.ticket, job_.ends);
    while (read && flight.asked < flight.to.bytes.size()) {
      GANTRY_TRY(ask(flight));
      read = own_.lane->wait(flight.ticket, job_.ends);
    }
    if (!read)
      return prefixed(
          read.error(), "{}",
          image::chunk_place(job_.path, flight.chunk, job_.chunks[flight.chunk].offset));
    return job_.there(own_,
                      {flight.chunk, flight.to.bytes.first(flight.stored), Clock::now() - began});
  }

  LoadJob& job_;
  LoadJob::Worker& own_;
  const std::size_t ahead_;
  std::size_t begun_ = 0;  // that use a buffer
  std::deque<Flight> flights_;
};

}  // namespace

Result<LoadMemory> take_memory(const std::optional<Pool>& pool, Bytes size) {
  if (pool) {
    GANTRY_ASSIGN(Block block, Pool(*pool).allocate(size, {.alignment = kImageBorder}));
    auto keep = std::make_shared<Block>(std::move(block));
    return LoadMemory{keep->bytes(), keep};
  }
  GANTRY_ASSIGN(Region region, Region::create(size, "image", {.shareable = false}));
  auto keep = std::make_shared<Region>(std::move(region));
  return LoadMemory{{keep->data(), size}, keep};
}

LoadJob::LoadJob(const Image& image, Deadline until)
    : path(image.path()),
      tensors(copy_of(image.tensors())),
      partitions(copy_of(image.partitions())),
      chunks(copy_of(image.chunks())),
      ends(until) {}

// The image's file, whatever has its name by now.
// Opened once more, which a process without /proc cannot, or one that gave up its rights to the
// file.
Result<std::string> LoadJob::open_file(const Image& image) {
  const std::string same = fmt::format("/proc/self/fd/{}", image.descriptor());
  auto opened = OpenFile::open_direct(same, "its bytes");
  if (opened && (*opened)->alignment() <= kImageBorder) {
    file = *std::move(opened);
    return file->alignment() > 1
               ? "directly"
               : fmt::format("through the page cache ({})", file->why_not_direct());
  }
  const std::string why = opened ? fmt::format("directly it wants {} bytes", (*opened)->alignment())
                                 : opened.error().message;
  const int again = ::fcntl(image.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (again < 0) return fail_errno(path);
  file = std::make_shared<const OpenFile>(again, "its bytes");
  return fmt::format("through the page cache ({})", why);
}

Result<void> LoadJob::make_worker(const Start& how, FileIo& io, std::size_t ahead, bool is_packed) {
  Worker worker;
  worker.number = workers.size();
  GANTRY_ASSIGN(worker.lane, io.open_lane());
  const auto take = [&how](std::vector<LoadMemory>& to, std::size_t count) -> Result<void> {
    for (std::size_t i = 0; i < count; ++i) {
      GANTRY_ASSIGN(LoadMemory one, take_memory(how.pool, kImageChunkBytes));
      to.push_back(how.registered ? how.registered(std::move(one)) : std::move(one));
    }
    return {};
  };
  const std::size_t copied = how.registered ? 1 : 0;
  if (is_packed || !how.has_places) GANTRY_TRY(take(worker.buffers, ahead + copied));
  if (is_packed && !how.has_places) GANTRY_TRY(take(worker.raw, 1 + copied));
  workers.push_back(std::move(worker));
  return {};
}

Result<void> LoadJob::start(const Start& how, std::span<const std::size_t> chunks_of_it) {
  std::shared_ptr<FileIo> io = how.file_io;
  if (io == nullptr) {
    GANTRY_ASSIGN(io, make_plain_file_io());
  }
  const unsigned usual_workers = std::min(usable_cpus(), kMostWorkers) * (how.reads_pieces ? 2 : 1);
  const unsigned asked = how.workers != 0 ? how.workers : usual_workers;
  const auto usual = std::clamp<std::size_t>(chunks_of_it.size(), 1, asked);
  const bool packed = is_packed(chunks_of_it);
  const std::size_t serving = how.has_places && !packed ? ahead_in_place(usual) : kAheadPacked;
  const std::size_t ahead = how.ahead != 0 ? how.ahead : serving;
  for (std::size_t i = 0; i < usual; ++i) GANTRY_TRY(make_worker(how, *io, ahead, packed));
  threads_.reserve(workers.size());  // so that none that runs is lost
  for (std::size_t i = 0; i < workers.size(); ++i) {
    GANTRY_ASSIGN(std::thread thread,
                  start_thread("a thread that loads an image", [this, i, ahead] {
                    ::pthread_setname_np(::pthread_self(), "gantry-image");
                    auto done = guarded([&] { return LoadWorker(*this, workers[i], ahead).run(); });
                    if (!done) end(std::move(done).error());
                  }));
    threads_.push_back(std::move(thread));
  }
  return {};
}

bool LoadJob::is_packed(std::span<const std::size_t> those_chunks) const {
  return std::ranges::any_of(
      those_chunks, [&](std::size_t chunk) { return chunks[chunk].coding.codec != Codec::none; });
}

void LoadJob::cancel_lanes() noexcept {
  for (const Worker& worker : workers) worker.lane->cancel();
}

// A fork's copy has no threads to end.
void LoadJob::join() noexcept {
  for (std::thread& thread : threads_) {
    if (!fork_guard.is_this())
      disown(std::move(thread));
    else if (thread.joinable())
      thread.join();
  }
  threads_.clear();
}

}  // namespace gantry
