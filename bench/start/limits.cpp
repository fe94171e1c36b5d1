// What no loader can beat: the disk alone, and unpacking alone.

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <gantry/image.hpp>
#include <gantry/memory.hpp>
#include <thread>

#include "../support/program/sizes.hpp"
#include "../support/system/cpus.hpp"
#include "files.hpp"
#include "loaders.hpp"

namespace gantry::bench {
namespace {

/// Memory as load_image() takes it.
Result<Region> loading_memory(Bytes bytes) {
  return Region::create(bytes, "gantry-bench-start", {.shareable = false});
}

using DoPart = std::function<Result<void>(std::size_t thread, std::size_t part)>;

/// Has so many threads take the next part, from 0 on, until all are done. Who fails takes no more.
Result<void> share_out(std::size_t threads, std::size_t parts, const DoPart& do_part) {
  std::atomic<std::size_t> next{0};
  std::vector<Result<void>> ends(threads);
  const auto work = [&](std::size_t thread) {
    // relaxed: join() orders what the parts did before what follows.
    for (std::size_t part = 0; ends[thread] && part < parts;) {
      part = next.fetch_add(1, std::memory_order_relaxed);
      if (part < parts) ends[thread] = do_part(thread, part);
    }
  };
  {
    std::vector<std::jthread> team;
    for (std::size_t thread = 0; thread < threads; ++thread) team.emplace_back(work, thread);
  }
  const auto failed = std::ranges::find_if(ends, [](const auto& end) { return !end; });
  return failed == ends.end() ? Result<void>() : *failed;
}

/// The whole file past the page cache into one buffer, a thread for each read under way.
class DirectLoader final : public Loader {
 public:
  DirectLoader(const Weights& weights, const DirectReads& reads)
      : weights_(weights), reads_(reads) {}

  Result<void> load() override {
    const auto file = open_to_read(weights_.path(WeightFile::safetensors), O_DIRECT);
    if (!file) return Unexpected(file.error());
    const std::size_t parts = (weights_.file_bytes() + reads_.bytes - 1) / reads_.bytes;
    auto memory = loading_memory(weights_.file_bytes());
    if (!memory) return Unexpected(memory.error());
    memory_ = *std::move(memory);
    return share_out(std::min<std::size_t>(reads_.depth, parts), parts,
                     [&](std::size_t, std::size_t part) {
                       const Bytes at = part * reads_.bytes;
                       const Bytes size = std::min(reads_.bytes, weights_.file_bytes() - at);
                       return read_at(*file, at, {memory_.data() + at, size});
                     });
  }
  ConstByteSpan tensor(std::size_t index) const override {
    const WeightTensor& tensor = weights_.tensors()[index];
    return {memory_.data() + tensor.offset, tensor.bytes};
  }
  std::string chosen() const override { return to_string(reads_); }

 private:
  const Weights& weights_;
  const DirectReads reads_;
  Region memory_;
};

/// The packed image's chunks out of the page cache into memory that is there, by as many threads as
/// load_image() has.
class DecodeLoader final : public Loader {
 public:
  DecodeLoader(const Weights& weights, const DirectReads&) : weights_(weights) {}

  Result<void> prepare() override {
    constexpr std::size_t kMost = 8;  // as load_image()
    const auto cpus = allowed_cpus();
    if (!cpus) return Unexpected(cpus.error());
    for (std::size_t i = 0; i < std::min(kMost, cpus->size()); ++i) {
      auto image = Image::open(weights_.path(WeightFile::packed));
      if (!image) return Unexpected(image.error());
      images_.push_back(*std::move(image));
    }
    auto memory = loading_memory(images_.front().partitions().front().bytes);
    if (!memory) return Unexpected(memory.error());
    memory_ = *std::move(memory);
    if (auto touched = memory_.touch(0, memory_.size()); !touched) return touched;
    return images_.front().verify();  // which has the page cache read it
  }
  Result<void> load() override {
    return share_out(
        images_.size(), images_.front().chunks().size(), [&](std::size_t thread, std::size_t part) {
          const ImageChunk& chunk = images_[thread].chunks()[part];
          const Bytes from = part * kImageChunkBytes;
          return images_[thread].read(0, from, {memory_.data() + from, chunk.raw_bytes});
        });
  }
  ConstByteSpan tensor(std::size_t index) const override {
    const ImageTensor& tensor = images_.front().tensors()[index];
    return {memory_.data() + tensor.offset, tensor.bytes};
  }
  std::string chosen() const override { return fmt::format("{} threads", images_.size()); }

 private:
  const Weights& weights_;
  std::vector<Image> images_;  // one for each thread
  Region memory_;
};

}  // namespace

std::string to_string(const DirectReads& reads) {
  return fmt::format("{} x {}", format_size(reads.bytes), reads.depth);
}

std::vector<LoaderKind> limit_kinds() {
  using enum WeightFile;
  return {{kDirect, safetensors, true, make_loader<DirectLoader>},
          {kDecode, packed, false, make_loader<DecodeLoader>}};
}

}  // namespace gantry::bench
