#include <gmock/gmock.h>

#include "device/cuda/cuda_device.hpp"
#include "fake_device.hpp"
#include "file_ios.hpp"
#include "received_suite.hpp"
#include "registrars.hpp"

// A received message goes to a device or a file from where it lies, whatever its registrar says.
namespace gantry {
namespace {

using received::Channel;
using received::contents_of;
using received::Memory;
using received::new_file;
using received::noise;
using received::soon;

// ---- by each registrar ---------------------------------------------------------------------

class ReceivedMemory : public testing::TestWithParam<RegistrarCase> {};

TEST_P(ReceivedMemory, IsRegisteredOrItIsSaidWhyNot) {
  const auto registrar = GetParam().make({});
  if (!registrar) GTEST_SKIP() << to_string(registrar.error());
  {
    Channel channel({*registrar});
    const Memory sent = noise(300'000, 1);
    const Message message = channel.exchange(sent);
    EXPECT_TRUE(std::ranges::equal(message.bytes(), sent));
    const auto key = message.key_for(**registrar);
    if (key) {
      ASSERT_TRUE(*key);
      EXPECT_EQ((*registrar)->report().registrations, 1u);
      EXPECT_THAT(channel.explain(), testing::HasSubstr("' knows 1 slab of it (1 MiB)"));
    } else {
      EXPECT_EQ(key.error().code, Code::unsupported) << key.error().message;
      EXPECT_FALSE(key.error().hint.empty());
      EXPECT_THAT(channel.explain(), testing::HasSubstr(key.error().hint));
    }
  }
  EXPECT_EQ((*registrar)->report().registrations, 0u);
}

// What pins memory to write there must not be given what is mapped read-only.
TEST_P(ReceivedMemory, IsForReadingAlone) {
  const auto registrar = GetParam().make({});
  if (!registrar) GTEST_SKIP() << to_string(registrar.error());
  Channel channel;
  const Message message = channel.exchange(noise(300'000, 2));
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): it is only registered
  const ByteSpan memory(const_cast<std::byte*>(message.bytes().data()), 300'000);
  const auto known = (*registrar)->register_memory(memory, DeviceAccess::read);
  if (!known) {
    EXPECT_EQ(known.error().code, Code::unsupported) << known.error().message;
    return;
  }
  const auto writing = (*registrar)->register_memory(memory.first(100));
  ASSERT_FALSE(writing);
  EXPECT_EQ(writing.error().code, Code::already_exists);
  EXPECT_TRUE((*registrar)->register_memory(memory.first(100), DeviceAccess::read));
}

INSTANTIATE_TEST_SUITE_P(Registrars, ReceivedMemory, testing::ValuesIn(kRegistrars),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

// ---- to files ------------------------------------------------------------------------------

class ReceivedToFile : public testing::TestWithParam<FileIoCase> {};

TEST_P(ReceivedToFile, IsWrittenFromWhereItLies) {
  const auto io = GetParam().make();
  if (!io) GTEST_SKIP() << to_string(io.error());
  const auto lane = *(*io)->open_lane(FileTransfer::Kind::write);
  Channel channel;
  const auto file = new_file();
  Memory sent;
  std::vector<Ticket> tickets;
  for (unsigned i = 0; i < 20; ++i) {  // more than there are credits: they come back by the lane
    const Memory part = noise(100'000 + i * 1000, i);
    auto message = std::make_shared<const Message>(channel.exchange(part));
    const ConstByteSpan bytes = message->bytes();
    tickets.push_back(
        *lane->submit(FileTransfer::write_of(file, sent.size(), bytes, std::move(message))));
    sent.insert(sent.end(), part.begin(), part.end());
  }
  for (const Ticket ticket : tickets) ASSERT_TRUE(lane->wait(ticket, soon()));
  EXPECT_EQ(contents_of(*file), sent);
}

INSTANTIATE_TEST_SUITE_P(FileIos, ReceivedToFile, testing::ValuesIn(kFileIos),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

// ---- to devices ----------------------------------------------------------------------------

void goes_through(Device& device, const std::vector<std::shared_ptr<Registrar>>& registrars) {
  Channel channel(registrars);
  const auto in = *device.open_queue(QueueRole::copy_in);
  const auto out = *device.open_queue(QueueRole::copy_out);
  for (unsigned i = 0; i < 3; ++i) {
    const Memory sent = noise(500'000, i);
    auto message = std::make_shared<const Message>(channel.exchange(sent));
    for (const auto& registrar : registrars) EXPECT_TRUE(message->key_for(*registrar));
    const auto buffer = *device.allocate(sent.size());
    const ConstByteSpan bytes = message->bytes();
    const auto arrived = *in->copy_in(buffer, 0, bytes, std::move(message));
    ASSERT_TRUE(out->wait_for(arrived));
    Memory back(sent.size());
    ASSERT_TRUE((*out->copy_out(buffer, 0, back)).wait(soon()));
    EXPECT_EQ(back, sent) << i;
  }
}

TEST(ReceivedToDevice, GoesToADeviceBehindABus) {
  const auto device = *make_fake_device(std::make_shared<FaultScript>());
  goes_through(*device, {FakeRegistrar::create()});
}

TEST(ReceivedToDevice, GoesToACudaDeviceThatKnowsIt) {
  const auto registrar = *make_cuda_registrar({.library = GANTRY_CUDA_STUB});
  const auto device =
      *make_cuda_device({.library = GANTRY_CUDA_STUB, .compiler = GANTRY_NVRTC_STUB});
  goes_through(*device, {registrar});
  EXPECT_EQ(registrar->report().registrations, 0u);
}

}  // namespace
}  // namespace gantry
