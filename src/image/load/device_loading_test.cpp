#include <gantry/image.hpp>

#include <gmock/gmock.h>

#include "core/base/result.hpp"
#include "image/load/test_gated_file_io.hpp"
#include "image/load/test_held_copies.hpp"
#include "image/test_image.hpp"

// What load_image() promises of devices, by one whose copies a test holds up or lets fail. That
// every byte arrives, on each device there is: tests/conformance/device_images_test.cpp.
namespace gantry {
namespace {

using namespace std::chrono_literals;
using test::Content;
using test::Copies;
using test::Data;
using test::EagerFileIo;
using test::large_content;
using test::make_device;
using test::same;
using testing::HasSubstr;

class LoadsToADevice : public testing::Test {
 protected:
  ~LoadsToADevice() override { copies_->open(); }  // of a device that was given up

  Image packed(const Content& content, const ImageOptions& options = {}) {
    const auto facts = content.pack(path_, options);
    EXPECT_TRUE(facts) << to_string(facts.error());
    return *Image::open(path_);
  }
  Data bytes_of(const LoadedTensor& loaded) {
    Data bytes(*dense_bytes(loaded.tensor));
    if (bytes.empty()) return bytes;
    const auto queue = *device_->open_queue(QueueRole::copy_out);
    const auto done = queue->copy_out(*loaded.buffer, loaded.offset, bytes)->wait();
    EXPECT_TRUE(done) << to_string(done.error());
    return bytes;
  }
  std::string place_of(const Image& image, std::size_t chunk) const {
    return fmt::format("{}: chunk {} (offset {})", path_, chunk, image.chunks()[chunk].offset);
  }

  test::Folder folder_;
  std::string path_ = folder_.file("model.gimg");
  std::shared_ptr<Copies> copies_ = std::make_shared<Copies>();
  std::shared_ptr<Device> device_ =
      make_device([copies = copies_](std::string_view what) { return copies->begin(what); });
};

TEST_F(LoadsToADevice, ATensorIsThereWhenItsCopyHasEnded) {
  const Content content = large_content();
  copies_->hold_from(1);
  auto loading = load_image(packed(content), {.devices = {device_}, .first = {"bias"}});
  ASSERT_TRUE(loading) << to_string(loading.error());
  const Copies::Opener opener(*copies_);
  copies_->wait_for_held();
  const auto early = loading->wait("bias", Deadline::after(10ms));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::timed_out);
  EXPECT_EQ(loading->report().raw_bytes, 0u);
  copies_->open();
  const auto bias = loading->wait("bias");
  ASSERT_TRUE(bias) << to_string(bias.error());
  EXPECT_TRUE(bias->bytes.empty());
  EXPECT_TRUE(same(bytes_of(*bias), content.data[5]));
}

// A read that is on its way, or never comes, does not keep a tensor from being there.
TEST_F(LoadsToADevice, WhatIsFirstIsThereBeforeTheRestIsRead) {
  const Content content = large_content();
  const Image image = packed(content);
  const auto io = std::make_shared<test::GatedFileIo>(2);
  auto loading = load_image(
      image, {.devices = {device_}, .first = {"bias", "layer.0.q"}, .file_io = io, .workers = 1});
  ASSERT_TRUE(loading) << to_string(loading.error());
  EXPECT_TRUE(same(bytes_of(*loading->wait("bias")), content.data[5]));
  EXPECT_TRUE(same(bytes_of(*loading->wait("layer.0.q")), content.data[1]));
  EXPECT_EQ(io->asked()[0], image.chunks().back().offset);
}

constexpr std::size_t kChunks = 12, kAhead = 4;
Content content_of_chunks() {
  Content content;
  for (std::size_t i = 0; i < kChunks; ++i)
    content.add(test::tensor("t" + std::to_string(i), types::u8, {4 << 20}));
  return content;
}

// Copy k begins when the read of chunk k + 4 is over, which must not have gone to its memory.
TEST_F(LoadsToADevice, TheNextChunksAreReadMeanwhileAndNotIntoWhatIsCopied) {
  const Content content = content_of_chunks();
  for (const ImageOptions& packing : {ImageOptions{}, ImageOptions{Codec::deflate, 1, true}}) {
    const Image image = packed(content, packing);
    const auto io = std::make_shared<EagerFileIo>();
    std::size_t copied = 0;
    device_ = make_device([&, io](std::string_view what) -> Result<void> {
      if (what == "copy-in") io->wait_for_read(std::min(++copied + kAhead, kChunks));
      return {};
    });
    auto loading = load_image(image, {.devices = {device_}, .file_io = io, .workers = 1});
    ASSERT_TRUE(loading) << to_string(loading.error());
    for (std::size_t i = 0; i < kChunks; ++i)
      EXPECT_TRUE(same(bytes_of(*loading->wait("t" + std::to_string(i))), content.data[i])) << i;
  }
}

TEST_F(LoadsToADevice, ThePoolHasOnlyWhatIsUnderWayAndNeverMoreThanItsBudget) {
  const Content content = large_content();  // of 6 chunks, 24 MiB
  const struct {
    ImageOptions packing;
    Bytes chunks;  // five that are read, one of them already there; two that are unpacked
  } cases[] = {{ImageOptions{}, 5}, {ImageOptions{Codec::deflate, 1, true}, 7}};
  for (const auto& [packing, chunks] : cases) {
    const Image image = packed(content, packing);
    const Bytes enough = chunks * kImageChunkBytes;
    for (const bool suffices : {true, false}) {
      Pool pool = *Pool::create({.slab_bytes = Bytes{1} << 20,
                                 .budget_bytes = suffices ? enough : enough - kImageChunkBytes});
      {
        auto loading = load_image(image, {.pool = pool, .devices = {device_}, .workers = 1});
        ASSERT_EQ(loading.has_value(), suffices);
        if (!suffices) {
          EXPECT_EQ(loading.error().code, Code::out_of_memory);
          EXPECT_EQ(pool.report().live_bytes, 0u);
          continue;
        }
        EXPECT_TRUE(loading->wait());
        EXPECT_EQ(pool.report().live_bytes, enough);
        EXPECT_TRUE(same(bytes_of(*loading->wait("layer.0.k")), content.data[3]));
      }
      EXPECT_EQ(pool.report().live_bytes, 0u);
    }
  }
}

TEST_F(LoadsToADevice, ACopyThatFailsIsAnErrorWithItsChunkAndWhatIsThereStays) {
  const Content content = large_content();
  const Image image = packed(content);
  for (const Code code : {Code::system, Code::device_full, Code::device_lost}) {
    copies_ = std::make_shared<Copies>();
    copies_->fail_at(3, code);
    device_ =
        make_device([copies = copies_](std::string_view what) { return copies->begin(what); });
    auto loading = load_image(image, {.devices = {device_}, .workers = 1});
    ASSERT_TRUE(loading) << to_string(loading.error());
    const auto done = loading->wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, code);
    EXPECT_THAT(done.error().message, HasSubstr(place_of(image, 2) + ": fake: "));
    EXPECT_THAT(done.error().message, HasSubstr("as scripted"));
    EXPECT_EQ(loading->wait("layer.0.k").error().message, done.error().message);
    const auto whole = loading->wait("embedding");  // in chunks 0 and 1
    ASSERT_TRUE(whole) << to_string(whole.error());
    if (code != Code::device_lost) {
      EXPECT_TRUE(same(bytes_of(*whole), content.data[0]));
    }
  }
}

// The copy of the other worker stands behind it in the queue, and does not begin.
TEST_F(LoadsToADevice, TheCopyThatFailedIsNamedWhicheverWorkerHearsOfItFirst) {
  const Image image = packed(content_of_chunks());
  for (int time = 0; time < 10; ++time) {
    const auto io = std::make_shared<EagerFileIo>();
    device_ = make_device([io](std::string_view what) -> Result<void> {
      if (what != "copy-in") return {};
      io->wait_for_read(2 * (kAhead + 1));  // each worker has a copy in the queue
      return fail(Code::system, "as scripted");
    });
    auto loading = load_image(image, {.devices = {device_}, .file_io = io, .workers = 2});
    ASSERT_TRUE(loading) << to_string(loading.error());
    const auto done = loading->wait();
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, testing::EndsWith(": as scripted"));
  }
}

TEST_F(LoadsToADevice, CancelledItEndsForEverybodyThoughACopyIsUnderWay) {
  copies_->hold_from(1);
  const Image image = packed(content_of_chunks());
  const auto io = std::make_shared<EagerFileIo>();
  {
    auto loading = load_image(image, {.devices = {device_}, .file_io = io, .workers = 2});
    ASSERT_TRUE(loading) << to_string(loading.error());
    const Copies::Opener opener(*copies_);
    io->wait_for_read(2 * (kAhead + 1));  // each worker has a copy in the queue
    copies_->wait_for_held();
    loading->cancel();
    EXPECT_EQ(loading->wait().error().code, Code::interrupted);
    EXPECT_EQ(loading->wait("t7").error().code, Code::interrupted);
  }  // joins
  EXPECT_EQ(copies_->begun(), 1u);  // the other worker's copy has not begun
  auto again = load_image(image, {.devices = {device_}});
  EXPECT_TRUE(again->wait());  // the device is as before
}

TEST_F(LoadsToADevice, ItsDeadlineEndsItThoughACopyDoesNot) {
  copies_->hold_from(1);
  const Image image = packed(large_content());
  auto loading =
      load_image(image, {.devices = {device_}, .workers = 1, .deadline = Deadline::after(30ms)});
  ASSERT_TRUE(loading) << to_string(loading.error());
  const Copies::Opener opener(*copies_);
  const auto done = loading->wait();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::timed_out);
}

TEST_F(LoadsToADevice, ADeviceThatIsGivenUpEndsItAndHoldsNobodyUp) {
  copies_->hold_from(2);
  Pool pool = *Pool::create({.slab_bytes = Bytes{1} << 20});
  {
    auto loading = load_image(packed(large_content()), {.pool = pool,
                                                        .devices = {device_},
                                                        .file_io = std::make_shared<EagerFileIo>(),
                                                        .workers = 1});
    ASSERT_TRUE(loading) << to_string(loading.error());
    copies_->wait_for_held();
    device_->abandon("the test wants it");
    const auto done = loading->wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::device_lost);
    EXPECT_THAT(done.error().message, HasSubstr("the test wants it"));
  }
  EXPECT_EQ(pool.report().live_bytes, kImageChunkBytes);  // the copy that is held up reads it
}

TEST_F(LoadsToADevice, AMemoryThatTheHostSeesIsReadIntoWithoutCopies) {
  const Content content = large_content();
  const auto seen =
      make_device([copies = copies_](std::string_view what) { return copies->begin(what); }, true);
  for (const ImageOptions& packing : {ImageOptions{}, ImageOptions{Codec::deflate, 1, true}}) {
    auto loading = load_image(packed(content, packing), {.devices = {seen}});
    ASSERT_TRUE(loading) << to_string(loading.error());
    for (std::size_t i = 0; i < content.tensors.size(); ++i) {
      const auto loaded = loading->wait(content.tensors[i].name);
      ASSERT_TRUE(loaded) << to_string(loaded.error());
      EXPECT_TRUE(same(loaded->bytes, content.data[i]));
      EXPECT_EQ(loaded->bytes.data(), loaded->buffer->host().data() + loaded->offset);
    }
    EXPECT_EQ(loading->report().copied_bytes, 0u);
  }
  EXPECT_EQ(copies_->begun(), 0u);
}

TEST_F(LoadsToADevice, PartitionsGoToTheirDevices) {
  const Content content = large_content();
  const auto other = make_device({});
  auto loading = load_image(packed(content), {.devices = {other, device_}});
  ASSERT_TRUE(loading) << to_string(loading.error());
  ASSERT_TRUE(loading->wait());
  EXPECT_EQ(copies_->begun(), Image::open(path_)->partitions()[1].chunks);
  EXPECT_TRUE(same(bytes_of(*loading->wait("head")), content.data[4]));
  const auto third = loading->wait("layer.0.k");
  std::swap(device_, const_cast<std::shared_ptr<Device>&>(other));  // NOLINT: bytes_of() asks it
  EXPECT_TRUE(same(bytes_of(*third), content.data[3]));
}

TEST_F(LoadsToADevice, ADeviceWithoutRoomAndNoDeviceAreErrors) {
  const Image image = packed(large_content());
  const auto small = make_device({}, false, Bytes{8} << 20);
  const auto full = load_image(image, {.devices = {small}});
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().code, testing::AnyOf(Code::device_full, Code::too_large));
  EXPECT_THAT(full.error().message, HasSubstr(path_ + ": partition 0: fake: "));
  const auto none = load_image(image, {.devices = {device_, nullptr}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::invalid_argument);
  EXPECT_THAT(none.error().message, HasSubstr("device 1 of LoadOptions::devices is null"));
}

TEST_F(LoadsToADevice, TheReportSaysWhatBoundedIt) {
  const Image image = packed(large_content());
  auto loading = load_image(image, {.devices = {device_}, .workers = 1});
  ASSERT_TRUE(loading->wait());
  const LoadReport report = loading->report();
  EXPECT_EQ(report.copied_bytes, report.raw_bytes);
  EXPECT_GT(report.copied.count(), 0);
  EXPECT_THAT(report.text(), HasSubstr("copied to devices at "));
  EXPECT_THAT(report.text(), HasSubstr("GB/s from memory as it is; "));
  const auto bound = [](auto waited, auto unpacked, auto for_bus) {
    LoadReport of;
    of.waited = waited;
    of.unpacked = unpacked;
    of.waited_for_bus = for_bus;
    return of.bound();
  };
  EXPECT_EQ(bound(3s, 2s, 1s), LoadBound::disk);
  EXPECT_EQ(bound(1s, 3s, 2s), LoadBound::unpacking);
  EXPECT_EQ(bound(1s, 2s, 3s), LoadBound::bus);
  const auto estimate = estimate_load(image, {.devices = {device_}});
  ASSERT_TRUE(estimate) << to_string(estimate.error());
  EXPECT_EQ(estimate->sample.copied_bytes, report.raw_bytes);
}

}  // namespace
}  // namespace gantry
