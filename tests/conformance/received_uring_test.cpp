#include <liburing.h>

#include "received_suite.hpp"

// A ring writes received messages: from a fixed buffer where the kernel fixes what is mapped
// read-only, else from the address.
namespace gantry {
namespace {

using received::Channel;
using received::contents_of;
using received::Memory;
using received::new_file;
using received::noise;

/// Writes by a ring of the test's own: from the fixed buffer where there is one, else from the
/// address.
class UringWriting : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::io_uring_queue_init(4, &ring_, 0), 0);
    has_ring_ = true;
  }
  ~UringWriting() override {
    if (has_ring_) ::io_uring_queue_exit(&ring_);
  }
  int write(const OpenFile& file, ConstByteSpan from, Bytes offset,
            const std::optional<DeviceKey>& key) {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    const auto size = static_cast<unsigned>(from.size());
    if (key)
      ::io_uring_prep_write_fixed(entry, file.descriptor(), from.data(), size, offset,
                                  static_cast<int>(key->key));
    else
      ::io_uring_prep_write(entry, file.descriptor(), from.data(), size, offset);
    EXPECT_EQ(::io_uring_submit(&ring_), 1);
    io_uring_cqe* done = nullptr;
    EXPECT_EQ(::io_uring_wait_cqe(&ring_, &done), 0);
    const int written = done->res;
    ::io_uring_cqe_seen(&ring_, done);
    return written;
  }

  io_uring ring_{};
  bool has_ring_ = false;
};

TEST_F(UringWriting, TakesReceivedMessagesAndOnesOwnBlocks) {
  const auto registrar =
      make_registrar(RegistrarKind::uring, {.ring_descriptor = ring_.ring_fd, .ring_slots = 8});
  if (!registrar) GTEST_SKIP() << to_string(registrar.error());
  Channel channel({*registrar});
  Pool pool = *Pool::create({.slab_bytes = Bytes{1} << 20, .registrars = {*registrar}});
  const auto file = new_file();
  Memory sent;
  for (unsigned i = 0; i < 6; ++i) {
    const Memory part = noise(200'000, i);
    if (i % 2 == 0) {
      const Message message = channel.exchange(part);
      const auto key = message.key_for(**registrar);
      EXPECT_TRUE(key || key.error().code == Code::unsupported) << key.error().message;
      const std::optional<DeviceKey> fixed = key ? *key : std::nullopt;
      EXPECT_EQ(write(*file, message.bytes(), sent.size(), fixed), 200'000);
    } else {
      const Block block = *pool.allocate(part.size());
      std::ranges::copy(part, block.bytes().begin());
      EXPECT_EQ(write(*file, block.bytes(), sent.size(), *block.key_for(**registrar)), 200'000);
    }
    sent.insert(sent.end(), part.begin(), part.end());
  }
  EXPECT_EQ(contents_of(*file), sent);
}

}  // namespace
}  // namespace gantry
