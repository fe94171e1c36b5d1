// The parts of `gantry bench start`: what it makes, that every byte is looked at, that cold is
// cold.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <gantry/image.hpp>
#include <nlohmann/json.hpp>

#include "../support/program/test_program.hpp"
#include "../support/system/buffer.hpp"
#include "disk_limit.hpp"
#include "files.hpp"
#include "keeping.hpp"
#include "loaders.hpp"

namespace gantry::bench {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

constexpr Bytes kTotal = (Bytes{9} << 20) + 6;  // over two borders of chunks, and no whole pages
constexpr int kNoInterrupt = -1;

std::vector<std::byte> bytes_of(const std::string& path) {
  const std::string text = text_of(path);
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

class MadeWeights : public ::testing::Test {
 protected:
  static constexpr std::size_t kTensors = 7;
  ScratchDirectory folder_ = must(ScratchDirectory::create());
  Weights weights_ = must(Weights::make(folder_.path(), kTotal, kTensors, kNoInterrupt));
  std::vector<std::byte> file_ = bytes_of(weights_.path(WeightFile::safetensors));

  ConstByteSpan in_file(const WeightTensor& tensor) const {
    return ConstByteSpan(file_).subspan(tensor.offset, tensor.bytes);
  }
};

// ---- what is made --------------------------------------------------------------------------

TEST_F(MadeWeights, AreASafetensorsFile) {
  std::uint64_t size = 0;
  ASSERT_GT(file_.size(), sizeof size);
  std::memcpy(&size, file_.data(), sizeof size);
  const char* const text = reinterpret_cast<const char*>(file_.data()) + sizeof size;
  const json header = json::parse(text, text + size);
  ASSERT_EQ(header.size(), kTensors);
  Bytes end = 0;
  for (const WeightTensor& tensor : weights_.tensors()) {
    const json& entry = header.at(tensor.name);
    EXPECT_EQ(entry.at("dtype"), "BF16");
    EXPECT_EQ(entry.at("shape"), json({tensor.bytes / 2}));
    EXPECT_EQ(entry.at("data_offsets"), json({end, end + tensor.bytes}));
    EXPECT_EQ(tensor.offset, sizeof size + size + end);
    end += tensor.bytes;
  }
  EXPECT_EQ(end, kTotal);
  EXPECT_EQ(file_.size(), sizeof size + size + end);
  EXPECT_EQ(file_.size() % 4096, 0U);  // so that it can be read directly to its end
}

TEST_F(MadeWeights, AreTheSameInEveryFile) {
  for (const WeightFile kind : {WeightFile::plain, WeightFile::packed}) {
    Image image = must(Image::open(weights_.path(kind)));
    ASSERT_EQ(image.tensors().size(), kTensors);
    for (const WeightTensor& tensor : weights_.tensors()) {
      const ImageTensor* const found = image.find(tensor.name);
      ASSERT_NE(found, nullptr) << tensor.name;
      EXPECT_EQ(found->tensor.type, types::bf16);
      std::vector<std::byte> bytes(found->bytes);
      must(image.read(*found, bytes));
      EXPECT_TRUE(std::ranges::equal(bytes, in_file(tensor))) << tensor.name;
      EXPECT_EQ(continued_sum(0, bytes), tensor.sum) << tensor.name;
    }
  }
}

TEST_F(MadeWeights, AreTheSameEachTime) {
  const ScratchDirectory other = must(ScratchDirectory::create());
  const Weights again = must(Weights::make(other.path(), kTotal, kTensors, kNoInterrupt));
  EXPECT_EQ(bytes_of(again.path(WeightFile::safetensors)), file_);
}

TEST_F(MadeWeights, AreSpreadAsTrainedOnesAre) {
  std::set<double> deviations;
  for (const WeightTensor& tensor : weights_.tensors()) {
    double sum = 0, squares = 0;
    for (Bytes at = 0; at < tensor.bytes; at += 2) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, file_.data() + tensor.offset + at, 2);
      const double number = std::bit_cast<float>(bits << 16);
      sum += number;
      squares += number * number;
    }
    const auto count = static_cast<double>(tensor.bytes / 2);
    EXPECT_NEAR(sum / count, 0, 0.001) << tensor.name;
    deviations.insert(std::sqrt(squares / count));
  }
  EXPECT_THAT(*deviations.begin(), Ge(0.0095));
  EXPECT_THAT(*deviations.rbegin(), Le(0.042));
  EXPECT_GT(*deviations.rbegin(), 1.2 * *deviations.begin());
}

// ---- every byte ----------------------------------------------------------------------------

TEST(WeightSum, SeesEveryBitAndEveryPlace) {
  std::vector<std::byte> bytes(3 * 4096 + 10);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i / 4096 + 1);
  const std::uint64_t sum = continued_sum(0, bytes);
  const ConstByteSpan all(bytes);
  EXPECT_EQ(continued_sum(continued_sum(0, all.first(8192)), all.subspan(8192)), sum);
  for (const std::size_t at : {std::size_t{0}, std::size_t{4096}, bytes.size() - 1}) {
    bytes[at] ^= std::byte{0x10};
    EXPECT_NE(continued_sum(0, bytes), sum) << at;
    bytes[at] ^= std::byte{0x10};
  }
  std::swap_ranges(bytes.begin(), bytes.begin() + 4096, bytes.begin() + 4096);
  EXPECT_NE(continued_sum(0, bytes), sum);  // two pages changed places
}

/// Has the tensors of the file, but for what a test does to them.
class GivenTensors final : public Loader {
 public:
  Result<void> load() override { return {}; }
  ConstByteSpan tensor(std::size_t index) const override { return given.at(index); }
  std::vector<std::vector<std::byte>> given;
};

TEST_F(MadeWeights, ATensorWithAnotherByteIsNoticed) {
  GivenTensors loaded;
  for (const WeightTensor& tensor : weights_.tensors()) {
    const ConstByteSpan bytes = in_file(tensor);
    loaded.given.emplace_back(bytes.begin(), bytes.end());
  }
  EXPECT_TRUE(check_loaded(loaded, weights_));
  loaded.given.back().back() ^= std::byte{1};
  EXPECT_THAT(check_loaded(loaded, weights_).error().message,
              HasSubstr("'layers.6.weight' has other bytes than were made"));
  loaded.given.back().back() ^= std::byte{1};
  loaded.given.front().pop_back();
  EXPECT_THAT(check_loaded(loaded, weights_).error().message, HasSubstr("'layers.0.weight'"));
}

TEST_F(MadeWeights, EveryLoaderBringsAllOfIt) {
  const bool is_direct = open_to_read(weights_.path(WeightFile::safetensors), O_DIRECT).has_value();
  for (const LoaderKind& kind : loader_kinds())
    for (const DirectReads& reads : {DirectReads{Bytes{1} << 20, 3}, DirectReads{}}) {
      if (kind.name == kDirect && !is_direct) continue;
      const auto loader = kind.make(weights_, reads);
      ASSERT_TRUE(loader->prepare()) << kind.name;
      const auto loaded = loader->load();
      ASSERT_TRUE(loaded) << kind.name << ": " << to_string(loaded.error());
      const auto checked = check_loaded(*loader, weights_);
      EXPECT_TRUE(checked) << kind.name << ": " << to_string(checked.error());
    }
}

// ---- kept ----------------------------------------------------------------------------------

TEST_F(MadeWeights, AnAttachedImageHasAllOfItEachTime) {
  for (const LoaderKind& kind : attach_kinds()) {
    if (kind.kept == PageKind::hugetlb && !lack_of_huge_pages(kTotal).empty()) continue;
    ProcessGroup group(kNoInterrupt);
    must(group.add(Party{{keeper_role("the keeper", kind, weights_, 2)}}, MayFail::never));
    must(group.await_ready());
    const auto loader = kind.make(weights_, {});
    for (int time = 0; time < 3; ++time) {
      loader->drop();
      const auto loaded = loader->load();
      ASSERT_TRUE(loaded) << to_string(loaded.error());
      const auto checked = check_loaded(*loader, weights_);
      EXPECT_TRUE(checked) << kind.name << ": " << to_string(checked.error());
    }
    EXPECT_GT(must(group.run(0, {})).peak_bytes, 0.4 * kTotal);  // its half
  }
}

TEST_F(MadeWeights, AnImageThatCannotBeKeptIsSaidByItsKeeper) {
  std::fstream file(weights_.path(WeightFile::plain));
  file.seekp(-5000, std::ios::end);
  file.put('x').put('y').flush();
  ProcessGroup group(kNoInterrupt);
  const Role role = keeper_role("the keeper", attach_kinds().front(), weights_, 2);
  must(group.add(Party{{role}}, MayFail::never));
  const auto ready = group.await_ready();
  ASSERT_FALSE(ready);
  EXPECT_THAT(ready.error().message, AllOf(HasSubstr("the keeper: "), HasSubstr("chunk")));
}

// ---- cold, and slow ------------------------------------------------------------------------

TEST_F(MadeWeights, AColdFileHasNoPageInTheCache) {
  if (is_in_memory(folder_.path())) GTEST_SKIP() << "no disk below " << folder_.path();
  const std::string path = weights_.path(WeightFile::safetensors);
  const std::size_t pages = whole_pages(file_.size()) / page_bytes();
  EXPECT_EQ(must(cached_pages(path)), pages);
  must(make_cold(path));
  EXPECT_EQ(must(cached_pages(path)), 0U);
  EXPECT_EQ(bytes_of(path), file_);
  EXPECT_EQ(must(cached_pages(path)), pages);
}

TEST(ColdFile, ThatStaysInMemoryIsRefused) {
  char path[] = "/dev/shm/gantry-bench-start-XXXXXX";
  const Descriptor file(::mkstemp(path));
  if (!file.is_open() || !is_in_memory("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  const std::vector<std::byte> bytes(3 * page_bytes(), std::byte{1});
  must(write_all(file.get(), bytes));
  const auto cold = make_cold(path);
  ::unlink(path);
  ASSERT_FALSE(cold);
  EXPECT_EQ(cold.error().code, Code::unsupported);
  EXPECT_THAT(cold.error().message, HasSubstr("3 of its pages stay in the page cache"));
}

TEST(HeldDisk, IsTheWholeDiskOfItsFolder) {
  const auto none = DiskLimit::create("/proc", 1'000'000);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("/proc lies on no block device of its own"));
}

TEST(HeldDisk, HoldsWhoJoinsAndGoesWithItsHandle) {
  const ScratchDirectory folder = must(ScratchDirectory::create());
  auto limit = DiskLimit::create(folder.path(), 123'000'000);
  if (!limit) GTEST_SKIP() << to_string(limit.error());
  const std::string name = "gantry-bench-" + std::to_string(::getpid());
  std::string group = "/sys/fs/cgroup/blkio/" + name;
  std::string file = group + "/blkio.throttle.read_bps_device";
  if (!std::filesystem::exists(group)) {
    group = "/sys/fs/cgroup/" + name;
    file = group + "/io.max";
  }
  EXPECT_THAT(text_of(file), HasSubstr("123000000"));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool joined = limit->join().has_value();
    ::_exit(joined && text_of("/proc/self/cgroup").find(name) != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text_of("/proc/self/cgroup").find(name), std::string::npos);
  limit = Unexpected(Error{});
  EXPECT_FALSE(std::filesystem::exists(group));
}

}  // namespace
}  // namespace gantry::bench
