#pragma once  // test_image.hpp: images of known content, and files changed on purpose.

#include <gantry/image.hpp>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/crc32c.hpp"
#include "core/base/test_bytes.hpp"
#include "image/tables.hpp"

namespace gantry::test {

using Data = std::vector<std::byte>;

/// Goes away with everything in it.
class Folder {
 public:
  Folder() {
    path_ = (std::filesystem::temp_directory_path() / "gantry-image-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

inline Data read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Data bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline void write_file(const std::string& path, ConstByteSpan bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

inline ImageTensor tensor(std::string name, DataType type, std::vector<std::int64_t> shape,
                          unsigned partition = 0) {
  return {std::move(name), Tensor::dense(type, shape), partition, 0, 0};
}

/// The upper halves of floats with the spread of weights, whatever the type is. No other thread has
/// them yet, so ThreadSanitizer need not look.
__attribute__((no_sanitize("thread"))) inline Data weights(Bytes bytes, unsigned seed) {
  static const std::vector<std::uint16_t> some = [] {  // drawn once: a draw is slow
    std::mt19937_64 random(1);
    std::normal_distribution<float> weight(0, 0.02f);
    std::vector<std::uint16_t> drawn(std::size_t{1} << 16);
    for (auto& one : drawn)
      one = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(weight(random)) >> 16);
    return drawn;
  }();
  Numbers random(seed);
  Data data(bytes);
  std::array<std::uint16_t, 4> word{};
  for (Bytes at = 0; at < bytes; at += sizeof word) {
    const std::uint64_t number = random();
    for (unsigned i = 0; i < 4; ++i) word[i] = some[number >> 16 * i & 0xffff];
    std::memcpy(data.data() + at, word.data(), std::min<Bytes>(sizeof word, bytes - at));
  }
  return data;
}

/// Tensors and what is in them.
struct Content {
  std::vector<ImageTensor> tensors;
  std::vector<Data> data;

  void add(ImageTensor one) {
    data.push_back(weights(*dense_bytes(one.tensor), static_cast<unsigned>(data.size())));
    tensors.push_back(std::move(one));
  }
  [[nodiscard]] ImageSource source() const {
    return [this](std::size_t index, Bytes from, ByteSpan into) -> Result<void> {
      std::memcpy(into.data(), data[index].data() + from, into.size());
      return {};
    };
  }
  Result<ImageFacts> pack(const std::string& path, const ImageOptions& options = {}) const {
    return write_image(path, tensors, options, source());
  }
};

/// Three tensors in two partitions and one chunk each.
inline Content small_content() {
  Content content;
  content.add(tensor("first", types::bf16, {5, 7}));
  content.add(tensor("second.weight", types::f32, {100}));
  content.add(tensor("third", types::u8, {3}, 1));
  return content;
}

/// Tensors of several chunks and of parts of one, in two partitions.
inline Content large_content() {
  Content content;
  content.add(tensor("embedding", types::bf16, {3000, 1024}));  // 5.9 MiB
  content.add(tensor("layer.0.q", types::bf16, {511, 1023}));
  content.add(tensor("nothing", types::f32, {0, 4}));
  content.add(tensor("layer.0.k", types::f32, {1024, 2048}));  // 8 MiB
  content.add(tensor("head", types::f32, {1000, 1111}, 1));
  content.add(tensor("bias", types::u8, {3}, 1));
  return content;
}

/// Makes CRCs right, so that what is behind them is looked at.
inline void seal(Data& image) {
  gantry::image::Superblock block;
  std::memcpy(&block, image.data(), sizeof block);
  const Bytes tables = std::min(block.tables_bytes, image.size() - sizeof block);
  block.tables_crc32c = crc32c(ConstByteSpan(image).subspan(sizeof block, tables));
  block.crc32c = crc32c(
      std::as_bytes(std::span(&block, 1)).first(offsetof(gantry::image::Superblock, crc32c)));
  std::memcpy(image.data(), &block, sizeof block);
}

}  // namespace gantry::test
