#include "image/load/load_job.hpp"

#include <fcntl.h>

#include <algorithm>

#include "base/disown.hpp"
#include "base/numa_nodes.hpp"
#include "base/result.hpp"
#include "base/worker_thread.hpp"
#include "image/load/device_copies.hpp"
#include "image/load/load_worker.hpp"

namespace gantry {
namespace {

constexpr unsigned kMostWorkers = 8;

template <class Thing>
std::vector<Thing> copy_of(std::span<const Thing> things) {
  return {things.begin(), things.end()};
}

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
  GANTRY_ASSIGN(worker.lane, io.open_lane());
  const auto take = [&how](std::vector<LoadMemory>& to, std::size_t count) -> Result<void> {
    for (std::size_t i = 0; i < count; ++i) {
      GANTRY_ASSIGN(LoadMemory one, take_memory(how.pool, kImageChunkBytes));
      to.push_back(how.copies == nullptr ? std::move(one) : how.copies->registered(std::move(one)));
    }
    return {};
  };
  const std::size_t copied = how.copies == nullptr ? 0 : 1;
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
  const std::size_t serving =
      how.has_places && !packed ? LoadWorker::ahead_in_place(usual) : LoadWorker::kAheadPacked;
  const std::size_t ahead = how.ahead != 0 ? how.ahead : serving;
  for (std::size_t i = 0; i < usual; ++i) GANTRY_TRY(make_worker(how, *io, ahead, packed));
  threads_.reserve(workers.size());  // so that none that runs is lost
  for (std::size_t i = 0; i < workers.size(); ++i) {
    GANTRY_ASSIGN(std::thread thread,
                  start_thread("a thread that loads an image", [this, i, ahead] {
                    ::pthread_setname_np(::pthread_self(), "gantry-image");
                    LoadWorker(*this, i, ahead).run();
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
