// What no loader can beat: the disk alone, and unpacking alone.

#include <fmt/format.h>

#include <algorithm>
#include <gantry/image.hpp>
#include <gantry/memory.hpp>

#include "../support/system/cpus.hpp"
#include "loaders.hpp"

namespace gantry::bench {
namespace {

/// The whole file past the page cache into one buffer, a thread for each read under way.
class DirectLoader final : public Loader {
 public:
  DirectLoader(const Weights& weights, const DirectReads& reads)
      : weights_(weights), reads_(reads) {}

  Result<void> load() override {
    auto memory = fresh_memory(weights_.file_bytes());
    if (!memory) return Unexpected(memory.error());
    memory_ = *std::move(memory);
    return read_directly(weights_.path(WeightFile::safetensors), reads_,
                         {memory_.data(), weights_.file_bytes()});
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
    auto memory = fresh_memory(images_.front().partitions().front().bytes);
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

std::vector<LoaderKind> limit_kinds() {
  using enum WeightFile;
  return {{kDirect, safetensors, true, make_loader<DirectLoader>},
          {kDecode, packed, false, make_loader<DecodeLoader>}};
}

}  // namespace gantry::bench
