// What programs do with a safetensors file. Each knows where the tensors lie: reading the header's
// JSON is not charged to them.

#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "../support/system/mapping.hpp"
#include "files.hpp"
#include "loaders.hpp"

namespace gantry::bench {
namespace {

using Memory = std::unique_ptr<std::byte[]>;

/// As malloc() gives it.
Memory fresh(Bytes bytes) {
  return std::make_unique_for_overwrite<std::byte[]>(bytes);
}

/// Gives each tensor memory of its own.
class TensorByTensor : public Loader {
 public:
  TensorByTensor(const Weights& weights, const DirectReads&) : weights_(weights) {}
  ConstByteSpan tensor(std::size_t index) const override {
    return {tensors_[index].get(), weights_.tensors()[index].bytes};
  }

 protected:
  Result<Descriptor> open() const { return open_to_read(weights_.path(WeightFile::safetensors)); }
  const Weights& weights() const noexcept { return weights_; }
  void copy(const WeightTensor& tensor, const std::byte* from) {
    tensors_.push_back(fresh(tensor.bytes));
    std::memcpy(tensors_.back().get(), from, tensor.bytes);
  }

 private:
  const Weights& weights_;
  std::vector<Memory> tensors_;
};

/// The file mapped, each tensor copied out of it.
class MmapLoader final : public TensorByTensor {
 public:
  using TensorByTensor::TensorByTensor;

  Result<void> load() override {
    const auto file = open();
    if (!file) return Unexpected(file.error());
    const auto mapping = Mapping::private_of_file(file->get(), weights().file_bytes());
    if (!mapping) return Unexpected(mapping.error());
    for (const WeightTensor& tensor : weights().tensors())
      copy(tensor, mapping->bytes().data() + tensor.offset);
    return {};
  }
};

/// Each tensor read into a buffer that is made for it, and copied from there.
class TorchLikeLoader final : public TensorByTensor {
 public:
  using TensorByTensor::TensorByTensor;

  Result<void> load() override {
    const auto file = open();
    if (!file) return Unexpected(file.error());
    for (const WeightTensor& tensor : weights().tensors()) {
      const Memory bounce = fresh(tensor.bytes);
      if (auto done = read_at(*file, tensor.offset, {bounce.get(), tensor.bytes}); !done)
        return done;
      copy(tensor, bounce.get());
    }
    return {};
  }
};

/// The whole file read into one buffer, in such pages.
template <PageKind pages>
class ReadCopyLoader final : public Loader {
 public:
  ReadCopyLoader(const Weights& weights, const DirectReads&) : weights_(weights) {}

  Result<void> load() override {
    const auto file = open_to_read(weights_.path(WeightFile::safetensors));
    if (!file) return Unexpected(file.error());
    const auto into = memory();
    if (!into) return Unexpected(into.error());
    bytes_ = *into;
    return read_at(*file, 0, bytes_);
  }
  ConstByteSpan tensor(std::size_t index) const override {
    const WeightTensor& tensor = weights_.tensors()[index];
    return bytes_.subspan(tensor.offset, tensor.bytes);
  }

 private:
  Result<ByteSpan> memory() {
    const Bytes bytes = weights_.file_bytes();
    if (pages == PageKind::plain) {
      memory_ = fresh(bytes);
      return ByteSpan(memory_.get(), bytes);
    }
    auto mapping = Mapping::untouched(bytes);
    if (!mapping) return Unexpected(mapping.error());
    ::madvise(mapping->bytes().data(), bytes, MADV_HUGEPAGE);
    mapping_ = *std::move(mapping);
    return mapping_.bytes();
  }

  const Weights& weights_;
  Memory memory_;
  Mapping mapping_;
  ByteSpan bytes_;
};
using ReadCopy = ReadCopyLoader<PageKind::plain>;
using ReadCopyHuge = ReadCopyLoader<PageKind::transparent>;

}  // namespace

std::vector<LoaderKind> safetensors_kinds() {
  using enum WeightFile;
  return {{kMmap, safetensors, true, make_loader<MmapLoader>},
          {kReadCopy, safetensors, true, make_loader<ReadCopy>},
          {kReadCopyHuge, safetensors, true, make_loader<ReadCopyHuge>},
          {kTorchLike, safetensors, true, make_loader<TorchLikeLoader>}};
}

std::vector<LoaderKind> keep_kinds() {
  auto kinds = attach_kinds();
  kinds.push_back({kReadCopy, WeightFile::safetensors, false, make_loader<ReadCopy>});
  kinds.push_back({kReadCopyHuge, WeightFile::safetensors, false, make_loader<ReadCopyHuge>});
  return kinds;
}

}  // namespace gantry::bench
