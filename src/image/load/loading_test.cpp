#include <gantry/image.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "core/base/result.hpp"
#include "image/load/loading.hpp"
#include "image/load/test_gated_file_io.hpp"
#include "image/test_image.hpp"

// What load_image() promises, with files that are whole, changed, cut off, replaced and slow.
namespace gantry {
namespace {

using namespace std::chrono_literals;
using test::Content;
using test::Data;
using test::Folder;
using test::large_content;
using testing::HasSubstr;

bool has_bytes_of(const LoadedTensor& loaded, const Data& data) {
  return loaded.bytes.size() == data.size() &&
         (data.empty() || std::memcmp(loaded.bytes.data(), data.data(), data.size()) == 0);
}

class Loads : public testing::Test {
 protected:
  Image packed(const Content& content, const ImageOptions& options = {}) {
    const auto facts = content.pack(path_, options);
    EXPECT_TRUE(facts) << to_string(facts.error());
    auto image = Image::open(path_);
    EXPECT_TRUE(image) << to_string(image.error());
    return *std::move(image);
  }
  /// The error of a loading as a whole.
  static Error error_of(Result<ImageLoading> loading) {
    if (!loading) return loading.error();
    const auto done = loading->wait();
    EXPECT_FALSE(done);
    return done ? Error{} : done.error();
  }
  static void expect_all(ImageLoading& loading, const Content& content) {
    for (std::size_t i = 0; i < content.tensors.size(); ++i) {
      const auto loaded = loading.wait(content.tensors[i].name);
      ASSERT_TRUE(loaded) << to_string(loaded.error());
      EXPECT_TRUE(has_bytes_of(*loaded, content.data[i])) << content.tensors[i].name;
      EXPECT_TRUE(loaded->tensor.type == content.tensors[i].tensor.type);
      EXPECT_EQ(loaded->tensor.shape, content.tensors[i].tensor.shape);
    }
  }

  Folder folder_;
  std::string path_ = folder_.file("model.gimg");
};

// What it says is compared with loads in bench/start; here, what it does.
TEST_F(Loads, AnEstimateLoadsAPartAndSaysWhatBoundsIt) {
  Content content;
  for (int i = 0; i < 40; ++i)
    content.add(test::tensor("t" + std::to_string(i), types::u8, {4 << 20}));
  const Image image = packed(content, {.codec = Codec::deflate, .planes = true});
  const auto estimate = estimate_load(image);
  ASSERT_TRUE(estimate) << to_string(estimate.error());
  EXPECT_EQ(estimate->sample.raw_bytes, Bytes{32} * kImageChunkBytes);
  EXPECT_GT(estimate->time, estimate->sample.elapsed);  // by the time of eight chunks
  EXPECT_THAT(estimate->text(), HasSubstr("by a sample: 128.0 MiB"));
  const Image parts = packed(large_content());
  const auto part = estimate_load(parts, {.partitions = {1}});
  ASSERT_TRUE(part) << to_string(part.error());
  EXPECT_EQ(part->sample.raw_bytes, parts.partitions()[1].bytes);
  EXPECT_EQ(part->time, part->sample.elapsed);  // it loaded all
  EXPECT_EQ(estimate_load(image, {.partitions = {1}}).error().code, Code::invalid_argument);
  EXPECT_EQ(estimate_load(image, {.deadline = Deadline::now()}).error().code, Code::timed_out);
}

TEST_F(Loads, AnEstimateOfADamagedImageSaysSo) {
  const Image image = packed(large_content());
  Data bytes = test::read_file(path_);
  bytes[bytes.size() / 2] ^= std::byte{1};
  test::write_file(path_, bytes);
  EXPECT_THAT(to_string(estimate_load(image).error()), HasSubstr("chunk"));
}

TEST_F(Loads, EveryByteOfEveryCodecWithAndWithoutAPool) {
  const Content content = large_content();
  for (const auto& codec : list_codecs()) std::printf("%s: %d\n", codec.name.c_str(), codec.usable);
  for (const ImageOptions& packing :
       {ImageOptions{}, ImageOptions{Codec::lz4, 0, true}, ImageOptions{Codec::zstd, 1, false}}) {
    if (const auto facts = content.pack(path_, packing); !facts) {
      ASSERT_EQ(facts.error().code, Code::unsupported);
      continue;
    }
    const Image image = *Image::open(path_);
    for (const unsigned workers : {1u, 3u, 0u}) {
      for (const bool has_pool : {false, true}) {
        LoadOptions options{.workers = workers};
        if (has_pool) options.pool = *Pool::create({.slab_bytes = Bytes{1} << 20});
        auto loading = load_image(image, options);
        ASSERT_TRUE(loading) << to_string(loading.error());
        ASSERT_TRUE(loading->wait());
        expect_all(*loading, content);
        const LoadReport report = loading->report();
        EXPECT_EQ(report.raw_bytes, image.partitions()[0].bytes + image.partitions()[1].bytes);
        EXPECT_THAT(report.text(), HasSubstr("bounded it"));
        if (has_pool) {
          EXPECT_GE(options.pool->report().live_bytes, report.raw_bytes);
        }
      }
    }
  }
}

TEST_F(Loads, OnlyThePartitionsThatAreAskedFor) {
  const Content content = large_content();
  auto loading = load_image(packed(content), {.partitions = {1}});
  ASSERT_TRUE(loading) << to_string(loading.error());
  ASSERT_TRUE(loading->wait());
  EXPECT_TRUE(has_bytes_of(*loading->wait("head"), content.data[4]));
  EXPECT_EQ(loading->report().raw_bytes, Image::open(path_)->partitions()[1].bytes);
  const auto other = loading->wait("layer.0.q");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::not_found);
  EXPECT_THAT(other.error().message,
              HasSubstr("'layer.0.q' is in partition 0, which is not loaded"));
  EXPECT_THAT(loading->wait("layer.9").error().message, HasSubstr("there is no tensor 'layer.9'"));
}

// Each chunk asks for its place: a search from the first partition on takes 4,000 steps for the
// last one.
TEST_F(Loads, TheLastOfManyPartitionsIsFoundAsQuicklyAsTheFirst) {
  constexpr unsigned kPartitions = 4000;
  Content content;
  for (unsigned i = 0; i < kPartitions; ++i)
    content.add(test::tensor(std::to_string(i), types::u8, {i % 2}, i));
  const Image image = packed(content);
  const ImageLoading::State state(image, {});
  const auto quickest = [&](std::size_t chunk) {
    auto least = std::chrono::nanoseconds::max();
    for (int round = 0; round < 50; ++round) {
      const auto began = std::chrono::steady_clock::now();
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(state.place_of(chunk, 1).bytes.empty());
      least = std::min<std::chrono::nanoseconds>(least, std::chrono::steady_clock::now() - began);
    }
    return least;
  };
  const std::size_t last = image.chunks().size() - 1;
  EXPECT_EQ(last, kPartitions / 2 - 1);
  EXPECT_LT(quickest(last), 10 * quickest(0));
}

TEST_F(Loads, WhatIsNotThereCannotBeAskedFor) {
  const Image image = packed(large_content());
  EXPECT_EQ(load_image(image, {.partitions = {2}}).error().message,
            path_ + ": there is no partition 2: it has 2");
  EXPECT_THAT(load_image(image, {.first = {"bias", "bia"}}).error().message,
              HasSubstr("there is no tensor 'bia': it cannot be first"));
}

TEST_F(Loads, NeverMoreThanThePoolsBudget) {
  const Content content = large_content();
  const Image image = packed(content, {Codec::lz4, 0, true});
  const Bytes bytes = image.partitions()[0].bytes + image.partitions()[1].bytes;
  for (const Bytes budget : {bytes / 2, bytes + (Bytes{1} << 20)}) {  // of buffers it has none
    Pool pool = *Pool::create({.slab_bytes = Bytes{1} << 20, .budget_bytes = budget});
    const auto refused = load_image(image, {.pool = pool, .workers = 2});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().code, testing::AnyOf(Code::out_of_memory, Code::too_large));
    EXPECT_EQ(pool.report().live_bytes, 0u);
  }
}

TEST_F(Loads, AChangedByteIsAnErrorWithItsChunkAndWhatIsWholeStays) {
  const Content content = large_content();
  for (const ImageOptions& packing : {ImageOptions{}, ImageOptions{Codec::lz4, 0, true}}) {
    if (!content.pack(path_, packing)) continue;
    const Bytes offset = Image::open(path_)->chunks()[2].offset;
    Data bytes = test::read_file(path_);
    bytes[offset + 1000] ^= std::byte{4};
    test::write_file(path_, bytes);
    const Image image = *Image::open(path_);
    auto loading = load_image(image, {.first = {"embedding"}, .workers = 1});
    ASSERT_TRUE(loading);
    EXPECT_TRUE(has_bytes_of(*loading->wait("embedding"), content.data[0]));
    const auto done = loading->wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::invalid_argument);
    EXPECT_THAT(done.error().message,
                HasSubstr(fmt::format("{}: chunk 2 (offset {})", path_, offset)));
    EXPECT_EQ(loading->wait("layer.0.k").error().message, done.error().message);
    EXPECT_TRUE(has_bytes_of(*loading->wait("embedding"), content.data[0]));
  }
}

TEST_F(Loads, AFileThatIsCutOffMeanwhileIsAnErrorWithItsChunk) {
  const Image image = packed(large_content());
  ASSERT_EQ(::truncate(path_.c_str(), static_cast<off_t>(image.chunks()[1].offset + 4096)), 0);
  const Error error = error_of(load_image(image, {.workers = 1}));
  EXPECT_EQ(error.code, Code::system);
  EXPECT_THAT(error.message, HasSubstr("chunk 1 (offset"));
  EXPECT_THAT(error.message, HasSubstr("4096 of 4194304 bytes are there"));
}

TEST_F(Loads, AnotherFileOfItsNameIsNotSeen) {
  const Content content = large_content();
  const Image image = packed(content);
  Content other = test::small_content();
  ASSERT_TRUE(other.pack(path_));  // which gets the name
  auto loading = load_image(image);
  ASSERT_TRUE(loading) << to_string(loading.error());
  expect_all(*loading, content);
}

TEST_F(Loads, WhatWasHandedOutOutlivesLoadingAndImage) {
  const Content content = large_content();
  std::optional<LoadedTensor> kept;
  Pool pool = *Pool::create({.slab_bytes = Bytes{1} << 20});
  {
    auto loading = load_image(packed(content), {.pool = pool});
    ASSERT_TRUE(loading->wait());  // else the kernel may have the rest's memory for a moment
    kept = *loading->wait("layer.0.k");
  }
  EXPECT_TRUE(has_bytes_of(*kept, content.data[3]));
  EXPECT_GT(pool.report().live_bytes, content.data[3].size());
  kept.reset();
  EXPECT_EQ(pool.report().live_bytes, 0u);
}

TEST_F(Loads, AChildOfAForkIsRefusedAndDoesNotHang) {
  const Image image = packed(large_content());
  auto loading = load_image(image);
  ASSERT_TRUE(loading);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_refused =
        !loading->wait() && !loading->wait("bias") && loading->report().workers == 0;
    {
      const ImageLoading gone = *std::move(loading);
    }
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(loading->wait());
}

// ---- files that are slow
// -------------------------------------------------------------------------

TEST_F(Loads, WhatIsFirstComesFirstAndMayBeUsedBeforeTheRest) {
  const Content content = large_content();
  const Image image = packed(content);
  const auto io = std::make_shared<test::GatedFileIo>(3);
  auto loading = load_image(image, {.first = {"bias", "layer.0.q"}, .file_io = io, .workers = 1});
  ASSERT_TRUE(loading) << to_string(loading.error());
  EXPECT_TRUE(has_bytes_of(*loading->wait("bias"), content.data[5]));
  EXPECT_TRUE(has_bytes_of(*loading->wait("layer.0.q"), content.data[1]));
  const std::size_t q = image.find("layer.0.q")->offset / kImageChunkBytes;
  const std::size_t bias =
      image.partitions()[1].first_chunk + image.find("bias")->offset / kImageChunkBytes;
  const auto asked = io->asked();
  ASSERT_GE(asked.size(), 2u);
  EXPECT_EQ(asked[0], image.chunks()[bias].offset);
  EXPECT_EQ(asked[1], image.chunks()[q].offset);
  EXPECT_EQ(std::set(asked.begin(), asked.end()).size(), asked.size());  // nothing twice
}

TEST_F(Loads, AWaitEndsAtItsDeadlineAndTheLoadingGoesOn) {
  const Image image = packed(large_content());
  const auto io = std::make_shared<test::GatedFileIo>(0);
  auto loading = load_image(image, {.file_io = io, .workers = 2});
  ASSERT_TRUE(loading);
  const auto began = std::chrono::steady_clock::now();
  const auto late = loading->wait("layer.0.q", Deadline::after(20ms));
  EXPECT_GE(std::chrono::steady_clock::now() - began, 20ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::timed_out);
  EXPECT_THAT(late.error().message, HasSubstr("'layer.0.q' was not there"));
  EXPECT_THAT(loading->wait(Deadline::after(1ms)).error().message, HasSubstr("0 of 6 chunks"));
}

TEST_F(Loads, ItsDeadlineEndsAllOfItWithTheChunk) {
  const Image image = packed(large_content());
  const auto io = std::make_shared<test::GatedFileIo>(1);
  const Error error =
      error_of(load_image(image, {.file_io = io, .workers = 1, .deadline = Deadline::after(20ms)}));
  EXPECT_EQ(error.code, Code::timed_out);
}

TEST_F(Loads, CancelledItEndsForEverybodyAndAReadThatNeverReturnsHoldsNobodyUp) {
  const Content content = large_content();
  const Image image = packed(content);
  const auto io = std::make_shared<test::GatedFileIo>(2);
  auto loading = load_image(image, {.first = {"bias"}, .file_io = io, .workers = 1});
  ASSERT_TRUE(loading);
  EXPECT_TRUE(loading->wait("bias"));
  std::thread canceller([&] { loading->cancel(); });
  const auto done = loading->wait();
  canceller.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::interrupted);
  EXPECT_EQ(loading->wait("layer.0.k").error().code, Code::interrupted);
  EXPECT_TRUE(has_bytes_of(*loading->wait("bias"), content.data[5]));
}  // and its destructor joins

}  // namespace
}  // namespace gantry
