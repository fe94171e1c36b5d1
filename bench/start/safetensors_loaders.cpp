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

/// As malloc() gives it, in small pages where huge ones are by advice.
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

/// The whole file read into one buffer.
class ReadCopyLoader : public Loader {
 public:
  ReadCopyLoader(const Weights& weights, const DirectReads&) : weights_(weights) {}

  Result<void> load() override {
    const auto file = open_to_read(weights_.path(WeightFile::safetensors));
    if (!file) return Unexpected(file.error());
    const auto memory = make_memory(weights_.file_bytes());
    if (!memory) return Unexpected(memory.error());
    bytes_ = {*memory, weights_.file_bytes()};
    return read_at(*file, 0, bytes_);
  }
  ConstByteSpan tensor(std::size_t index) const override {
    const WeightTensor& tensor = weights_.tensors()[index];
    return bytes_.subspan(tensor.offset, tensor.bytes);
  }

 protected:
  virtual Result<std::byte*> make_memory(Bytes bytes) {
    memory_ = fresh(bytes);
    return memory_.get();
  }

 private:
  const Weights& weights_;
  Memory memory_;
  ByteSpan bytes_;
};

/// The same into memory as Gantry's.
class ReadCopyHugeLoader final : public ReadCopyLoader {
 public:
  using ReadCopyLoader::ReadCopyLoader;

 private:
  Result<std::byte*> make_memory(Bytes bytes) override {
    auto made = fresh_memory(bytes);
    if (!made) return Unexpected(made.error());
    return region_.emplace(*std::move(made)).data();
  }
  std::optional<Region> region_;
};

}  // namespace

std::vector<LoaderKind> safetensors_kinds() {
  using enum WeightFile;
  return {{kMmap, safetensors, true, make_loader<MmapLoader>},
          {kReadCopy, safetensors, true, make_loader<ReadCopyLoader>},
          {kReadCopyHuge, safetensors, true, make_loader<ReadCopyHugeLoader>},
          {kTorchLike, safetensors, true, make_loader<TorchLikeLoader>}};
}

std::vector<LoaderKind> keep_kinds() {
  auto kinds = attach_kinds();
  kinds.push_back({kReadCopy, WeightFile::safetensors, false, make_loader<ReadCopyLoader>});
  kinds.push_back({kReadCopyHuge, WeightFile::safetensors, false, make_loader<ReadCopyHugeLoader>});
  return kinds;
}

}  // namespace gantry::bench
