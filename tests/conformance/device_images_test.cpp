// device_images_test.cpp: load_image() brings images to the memory of every device.

#include <gantry/image.hpp>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_suite.hpp"
#include "image/test_image.hpp"

namespace gantry {
namespace {

using test::Content;
using test::Data;

class DeviceImages : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    auto made = GetParam().make(0);
    if (!made && made.error().code == Code::unsupported) GTEST_SKIP() << to_string(made.error());
    ASSERT_TRUE(made) << to_string(made.error());
    device_ = *std::move(made);
    compute_ = *device_->open_queue(QueueRole::compute);
  }
  Image packed(const ImageOptions& packing) {
    const auto facts = content_.pack(path_, packing);
    EXPECT_TRUE(facts) << to_string(facts.error());
    return *Image::open(path_);
  }
  /// By way of another queue, and another buffer of the device.
  Data bytes_of(const LoadedTensor& loaded) {
    Data bytes(*dense_bytes(loaded.tensor));
    if (bytes.empty()) return bytes;
    const DeviceBuffer copy = *device_->allocate(bytes.size());
    EXPECT_TRUE(compute_->copy(copy, 0, *loaded.buffer, loaded.offset, bytes.size()));
    EXPECT_TRUE(compute_->copy_out(copy, 0, bytes));
    const auto done = compute_->drain();
    EXPECT_TRUE(done) << to_string(done.error());
    return bytes;
  }
  void expect_all(ImageLoading& loading) {
    for (std::size_t i = 0; i < content_.tensors.size(); ++i) {
      const auto loaded = loading.wait(content_.tensors[i].name);
      ASSERT_TRUE(loaded) << to_string(loaded.error());
      EXPECT_TRUE(test::same(bytes_of(*loaded), content_.data[i])) << content_.tensors[i].name;
      EXPECT_EQ(loaded->bytes.empty(), content_.data[i].empty() || !device_->facts().host_visible);
      EXPECT_EQ(loaded->offset % 256, 0u);
    }
  }

  static inline const Content content_ = test::large_content();  // made once
  test::Folder folder_;
  std::string path_ = folder_.file("model.gimg");
  std::shared_ptr<Device> device_;
  std::unique_ptr<DeviceQueue> compute_;
};

TEST_P(DeviceImages, EveryByteArrivesPlainAndPackedByOneAndSeveralWorkers) {
  for (const ImageOptions& packing : {ImageOptions{}, ImageOptions{Codec::deflate, 1, true}}) {
    const Image image = packed(packing);
    for (const unsigned workers : {1u, 3u}) {
      auto loading = load_image(image, {.devices = {device_}, .workers = workers});
      ASSERT_TRUE(loading) << to_string(loading.error());
      ASSERT_TRUE(loading->wait());
      expect_all(*loading);
      const LoadReport report = loading->report();
      EXPECT_EQ(report.raw_bytes, image.partitions()[0].bytes + image.partitions()[1].bytes);
      EXPECT_EQ(report.copied_bytes, device_->facts().host_visible ? 0 : report.raw_bytes);
      EXPECT_THAT(report.text(), testing::HasSubstr("bounded it"));
    }
  }
}

// The pool's blocks are what the device reads, whoever registered them.
TEST_P(DeviceImages, EveryByteArrivesFromAPoolThatTheDeviceKnowsOrNot) {
  const Image image = packed({});
  for (const bool is_known : {true, false}) {
    PoolOptions options{.slab_bytes = Bytes{32} << 20, .budget_bytes = Bytes{64} << 20};
    if (is_known && device_->facts().registering_pays) options.registrars = {*device_->registrar()};
    Pool pool = *Pool::create(options);
    for (int time = 0; time < 2; ++time) {  // nothing of the first is in the second's way
      auto loading = load_image(image, {.pool = pool, .devices = {device_}, .workers = 2});
      ASSERT_TRUE(loading) << to_string(loading.error());
      expect_all(*loading);
      if (device_->facts().registering_pays) {
        EXPECT_EQ(loading->report().copied_from, "registered memory");
      }
    }
  }
}

TEST_P(DeviceImages, WhatWasHandedOutOutlivesTheLoadingAndAForksCopyIsRefused) {
  std::optional<LoadedTensor> kept;
  {
    auto loading = load_image(packed({}), {.devices = {device_}});
    ASSERT_TRUE(loading) << to_string(loading.error());
    const pid_t child = ::fork();
    if (child == 0) ::_exit(!loading->wait() && !loading->wait("bias") ? 0 : 1);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    kept = *loading->wait("layer.0.k");
  }
  EXPECT_TRUE(test::same(bytes_of(*kept), content_.data[3]));
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceImages, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace gantry
