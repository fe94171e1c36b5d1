#include "run/pipe/stage_pipe_frames.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace gantry {
namespace {

TEST(BufferStore, UsesABufferAgain) {
  BufferStore store(1 << 20);
  const auto first = store.take(1000);
  ASSERT_TRUE(first);
  store.give_back(first->token);
  const auto second = store.take(1000);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->bytes.data(), first->bytes.data());
  EXPECT_EQ(store.buffers(), 1u);
  store.give_back(second->token);
  EXPECT_EQ(store.buffers(), 0u);
}

TEST(BufferStore, BuffersThatAreOutAreApart) {
  BufferStore store(1 << 20);
  const auto first = store.take(10000);
  const auto second = store.take(10000);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->token, second->token);
  EXPECT_TRUE(second->bytes.data() >= first->bytes.data() + 10000 ||
              first->bytes.data() >= second->bytes.data() + 10000);
}

TEST(BufferStore, BuffersArePageAligned) {
  BufferStore store(1 << 20);
  const auto taken = store.take(1);
  ASSERT_TRUE(taken);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken->bytes.data()) % BufferStore::kAlignment, 0u);
}

TEST(BufferStore, RefusesMoreThanItsLimit) {
  BufferStore store(1000);
  EXPECT_TRUE(store.take(1000));
  const auto refused = store.take(1001);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
}

}  // namespace
}  // namespace gantry
