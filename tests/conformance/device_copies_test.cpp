#include <gmock/gmock.h>
#include <sys/mman.h>

#include <limits>

#include "device_suite.hpp"

// Memory of every device: what is copied, filled and allocated, and what is refused.
namespace gantry {
namespace {

using testing::HasSubstr;
using DeviceCopies = DeviceConformance;

constexpr Bytes kMost = std::numeric_limits<Bytes>::max();

TEST_P(DeviceCopies, AnySizeAtAnyOffsetComesBackAndTouchesNothingElse) {
  for (const Bytes size : {Bytes{0}, Bytes{1}, Bytes{3}, Bytes{4095}, Bytes{4097}, Bytes{1} << 20})
    for (const Bytes offset : {Bytes{0}, Bytes{1}, Bytes{64}, Bytes{4099}}) {
      const auto sent = random_bytes(size, size + offset);
      const DeviceBuffer there = buffer(offset + size + 5);
      ok(in_->fill(there, 0, there.size(), std::byte{0x5a}));
      const auto landed = in_->copy_in(there, offset, sent);
      ASSERT_TRUE(landed) << to_string(landed.error());
      ok(out_->wait_for(*landed));
      std::vector<std::byte> all(there.size()), part(size);
      ok(out_->copy_out(there, 0, all));
      ok(out_->copy_out(there, offset, part));
      ok(out_->drain());
      EXPECT_EQ(part, sent) << size << " at " << offset;
      std::vector<std::byte> wanted(there.size(), std::byte{0x5a});
      std::copy(sent.begin(), sent.end(), wanted.begin() + static_cast<std::ptrdiff_t>(offset));
      EXPECT_EQ(all, wanted) << size << " at " << offset;
    }
}

TEST_P(DeviceCopies, LargeOnesComeBackWhole) {
  const auto sent = random_bytes(Bytes{64} << 20, 7);
  const DeviceBuffer there = buffer(sent.size());
  const DeviceBuffer other = buffer(sent.size());
  std::vector<std::byte> back(sent.size());
  ok(in_->copy_in(there, 0, sent));
  ok(in_->copy(other, 0, there, 0, sent.size()));
  ok(in_->copy_out(other, 0, back));
  ok(in_->drain());
  EXPECT_TRUE(test::same(back, sent));
}

TEST_P(DeviceCopies, WithinTheDeviceAlsoOfOneBuffer) {
  const auto sent = random_bytes(1000, 3);
  const DeviceBuffer there = buffer(3000);
  std::vector<std::byte> back(1000);
  ok(in_->copy_in(there, 0, sent));
  ok(in_->copy(there, 1999, there, 0, 1000));
  ok(in_->copy_out(there, 1999, back));
  ok(in_->drain());
  EXPECT_EQ(back, sent);
  EXPECT_EQ(error_of(in_->copy(there, 500, there, 0, 501)).code, Code::invalid_argument);
  ok(in_->copy(there, 501, there, 0, 501));
}

TEST_P(DeviceCopies, WhatLiesOutsideTheBufferIsRefusedWithTheNumbers) {
  const DeviceBuffer there = buffer(100);
  std::vector<std::byte> host(200);
  const auto refused = [&](const Result<DeviceEvent>& result) {
    const Error error = error_of(result);
    EXPECT_EQ(error.code, Code::invalid_argument);
    EXPECT_THAT(error.message, HasSubstr("100 bytes"));
    EXPECT_THAT(error.message, HasSubstr(device_->facts().name));
  };
  for (const auto& [offset, size] :
       {std::pair<Bytes, Bytes>{0, 101}, {100, 1}, {101, 0}, {kMost, 1}, {kMost - 50, 100}}) {
    refused(in_->copy_in(there, offset, std::span(host).first(size)));
    refused(in_->copy_out(there, offset, std::span(host).first(size)));
    refused(in_->fill(there, offset, size, std::byte{}));
    refused(in_->copy(there, offset, there, 0, size));
    refused(in_->copy(there, 0, there, offset, size));
  }
  refused(in_->fill(there, 1, kMost, std::byte{}));
  ok(in_->drain());
}

TEST_P(DeviceCopies, EmptyHandlesNullMemoryAndOthersBuffersAreRefused) {
  const auto other = *GetParam().make(0);
  const DeviceBuffer none;
  const DeviceBuffer theirs = *other->allocate(64);
  const DeviceBuffer ours = buffer(64);
  std::vector<std::byte> host(8);
  for (const DeviceBuffer* wrong : {&none, &theirs}) {
    EXPECT_EQ(error_of(in_->copy_in(*wrong, 0, host)).code, Code::invalid_argument);
    EXPECT_EQ(error_of(in_->copy_out(*wrong, 0, host)).code, Code::invalid_argument);
    EXPECT_EQ(error_of(in_->copy(ours, 0, *wrong, 0, 8)).code, Code::invalid_argument);
    EXPECT_EQ(error_of(compute_->launch(kernel("hold"), {*wrong, 1u}, {})).code,
              Code::invalid_argument);
  }
  const ConstByteSpan nowhere(static_cast<const std::byte*>(nullptr), 8);
  EXPECT_THAT(error_of(in_->copy_in(ours, 0, nowhere)).message, HasSubstr("address 0"));
  EXPECT_EQ(error_of(compute_->launch(Kernel(), {ours}, {})).code, Code::invalid_argument);
  EXPECT_EQ(none.size(), 0u);
  EXPECT_FALSE(none);
}

TEST_P(DeviceCopies, BuffersOfNothingAndOfTooMuchAreRefused) {
  EXPECT_EQ(error_of(device_->allocate(0)).code, Code::invalid_argument);
  const Error error = error_of(device_->allocate(device_->facts().max_buffer_bytes + 1));
  EXPECT_EQ(error.code, Code::too_large);
  EXPECT_FALSE(error.hint.empty());
}

TEST_P(DeviceCopies, AFullDeviceSaysSoAndHasRoomAgainWhenBuffersGo) {
  constexpr Bytes kLimit = Bytes{8} << 20;
  const auto small = *GetParam().make(kLimit);
  EXPECT_EQ(small->memory()->total_bytes, kLimit);
  std::vector<DeviceBuffer> held;
  const Bytes each = std::min(kLimit / 4, small->facts().max_buffer_bytes);
  for (Bytes taken = 0; taken + each <= kLimit; taken += each)
    held.push_back(*small->allocate(each));
  EXPECT_LT(small->memory()->free_bytes, each);
  const Error error = error_of(small->allocate(each));
  EXPECT_EQ(error.code, Code::device_full);
  EXPECT_THAT(error.message, HasSubstr(std::to_string(each)));
  EXPECT_FALSE(error.hint.empty());
  held.pop_back();
  held.push_back(*small->allocate(each));
  held.clear();
  EXPECT_EQ(small->memory()->free_bytes, kLimit);
}

TEST_P(DeviceCopies, BuffersGoWhenTheLastOperationThatUsesThemHasEnded) {
  constexpr Bytes kLimit = Bytes{8} << 20;
  const auto small = *GetParam().make(kLimit);
  const auto queue = *small->open_queue(QueueRole::copy_in);
  const auto sent = random_bytes(kLimit / 8, 1);
  std::vector<std::byte> back(sent.size());
  DeviceBuffer there = *small->allocate(sent.size());
  ok(queue->copy_in(there, 0, sent));
  const auto last = *queue->copy_out(there, 0, back);
  there = {};
  ok(last.wait());
  EXPECT_EQ(back, sent);
  EXPECT_EQ(small->memory()->free_bytes, kLimit);
}

TEST_P(DeviceCopies, MemoryOfBuffersThatWentIsUsedAgain) {
  const auto small = *GetParam().make(Bytes{64} << 20);
  if (!small->facts().host_visible) GTEST_SKIP() << "nobody sees where its buffers lie";
  const std::byte* const at = small->allocate(100'000)->host().data();
  // Where its place would be free again, another takes it.
  const Region other = *Region::create(102'400, "device-test", {.shareable = false});
  const DeviceBuffer again = *small->allocate(99'000);
  EXPECT_EQ(again.host().data(), at);
  EXPECT_EQ(again.size(), 99'000u);
  EXPECT_EQ(again.host().size(), 99'000u);
  EXPECT_NE(small->allocate(99'000)->host().data(), at);
  EXPECT_EQ(small->memory()->free_bytes, (Bytes{64} << 20) - 99'000);
}

// ---- the caller's memory as a buffer -------------------------------------------------------

TEST_P(DeviceCopies, OverTheCallersMemoryIsWorkedOnWhereItLies) {
  constexpr std::uint32_t kWords = 10'000;
  const Region region = *Region::create(kWords * 4 + 4096, "device-test");
  const std::span words(reinterpret_cast<std::uint32_t*>(region.data()), kWords);
  const ByteSpan bytes = std::as_writable_bytes(words);
  if (device_->facts().in_place_alignment == 0) {
    EXPECT_EQ(error_of(device_->over(bytes)).code, Code::unsupported);
    return;
  }
  std::ranges::fill(words, 7u);
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  const Bytes free = device_->memory()->free_bytes;
  DeviceBuffer there = *device_->over(bytes, std::move(held));
  EXPECT_EQ(there.size(), bytes.size());
  if (device_->facts().kind == DeviceKind::opencl) {  // others' memory changes by itself
    EXPECT_EQ(device_->memory()->free_bytes, free);
  }
  const auto add = [&](std::uint32_t plus) {
    ok(compute_->launch(kernel("add"), {there, kWords, plus}, LaunchRange::linear(kWords)));
    ok(compute_->copy_out(there, 0, bytes));
    ok(compute_->drain());
  };
  add(5);
  EXPECT_EQ(words[0], 12u);
  EXPECT_EQ(words[kWords - 1], 12u);
  std::ranges::fill(words, 100u);
  ok(compute_->copy_in(there, 0, bytes));
  add(1);
  EXPECT_EQ(words[kWords - 1], 101u);
  // To and from elsewhere it is a buffer as any other.
  const std::uint32_t one = 1;
  std::uint32_t back = 0;
  ok(compute_->copy_in(there, 8, std::as_bytes(std::span(&one, 1))));
  ok(compute_->copy_out(there, 12, std::as_writable_bytes(std::span(&back, 1))));
  ok(compute_->copy_out(there, 0, bytes));
  ok(compute_->drain());
  EXPECT_EQ(words[2], 1u);
  EXPECT_EQ(back, 101u);
  EXPECT_FALSE(watched.expired());
  there = {};
  EXPECT_TRUE(watched.expired());
}

TEST_P(DeviceCopies, OverMemoryThatDoesNotFitIsRefused) {
  const Bytes grain = device_->facts().in_place_alignment;
  if (grain == 0) GTEST_SKIP() << "it has no memory in common with the host";
  const Region region = *Region::create(1 << 16, "device-test");
  const ByteSpan bytes(region.data(), region.size());
  EXPECT_EQ(std::popcount(grain), 1);
  const Error error = error_of(device_->over(bytes.subspan(grain / 2)));
  EXPECT_EQ(error.code, Code::invalid_argument);
  EXPECT_THAT(error.message, HasSubstr(fmt::format("no multiple of {}", grain)));
  EXPECT_EQ(error_of(device_->over({})).code, Code::invalid_argument);
  const ByteSpan huge(region.data(), device_->facts().max_buffer_bytes + 1);
  EXPECT_EQ(error_of(device_->over(huge)).code, Code::too_large);
}

// Seen to be over, it holds nothing any more; looked at without a pause, and often.
TEST_P(DeviceCopies, WhatTheyKeepAliveGoesBeforeTheirEnd) {
  const DeviceBuffer there = buffer(4096);
  for (int i = 0; i < 2000; ++i) {
    auto memory = std::make_shared<std::vector<std::byte>>(64);
    const std::weak_ptr<const void> watched = memory;
    const ByteSpan bytes(*memory);
    const auto last = *in_->copy_out(there, 0, bytes, std::move(memory));
    while (last.outcome() == Outcome::pending) std::this_thread::yield();
    ASSERT_TRUE(watched.expired()) << i;
  }
}

TEST_P(DeviceCopies, RegisteredMemoryIsCopiedToo) {
  const auto registrar = device_->registrar();
  ASSERT_TRUE(registrar) << to_string(registrar.error());
  const Region memory = *Region::create(1 << 16, "device-test");
  const ByteSpan bytes(memory.data(), memory.size());
  const auto known = (*registrar)->register_memory(bytes);
  ASSERT_TRUE(known) << to_string(known.error());
  const auto sent = random_bytes(bytes.size(), 4);
  std::copy(sent.begin(), sent.end(), bytes.begin());
  const DeviceBuffer there = buffer(bytes.size());
  ok(in_->copy_in(there, 0, bytes));
  ok(in_->fill(there, 1, 1, sent[1] ^ std::byte{1}));
  ok(in_->copy_out(there, 0, bytes));
  ok(in_->drain());
  EXPECT_EQ(bytes[1], sent[1] ^ std::byte{1});
  EXPECT_TRUE(std::equal(sent.begin() + 2, sent.end(), bytes.begin() + 2));
}

TEST_P(DeviceCopies, HostSeesBuffersWhereTheDeviceSaysSo) {
  const DeviceBuffer there = buffer(100);
  ok(in_->fill(there, 0, 100, std::byte{9}));
  ok(in_->drain());
  if (!device_->facts().host_visible) {
    EXPECT_TRUE(there.host().empty());
    return;
  }
  ASSERT_EQ(there.host().size(), 100u);
  EXPECT_EQ(there.host()[99], std::byte{9});
}

// With an engine under it the CPU's copies answer for memory that is not there.
TEST(CpuDeviceCopies, MemoryThatIsNotThereIsAnErrorWithItsAddress) {
  const auto device = *make_cpu_device({.threads = 1, .copier = *make_inline_engine()});
  const auto queue = *device->open_queue(QueueRole::copy_in);
  const DeviceBuffer there = *device->allocate(8192);
  void* at = ::mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  const ByteSpan hole(static_cast<std::byte*>(at), 8192);
  const auto event = queue->copy_in(there, 0, hole);
  const auto ended = event->wait();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::invalid_argument);
  EXPECT_THAT(ended.error().message, HasSubstr("cannot be read"));
  EXPECT_FALSE(queue->drain());
  const auto back = queue->copy_out(there, 0, hole);
  EXPECT_THAT(to_string(back->wait().error()), HasSubstr("cannot be written"));
  ::munmap(at, 8192);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceCopies, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace gantry
