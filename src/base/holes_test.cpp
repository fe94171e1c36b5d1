#include "base/holes.hpp"

#include <gtest/gtest.h>

#include "base/memfd.hpp"

namespace gantry {
namespace {

constexpr Bytes kPage = 4096;

class Holes : public testing::Test {
 protected:
  /// Writes one byte into each page of [from, to).
  void write(Bytes from, Bytes to) {
    for (Bytes at = from; at < to; at += kPage)
      ASSERT_EQ(::pwrite(memory_.get(), "x", 1, static_cast<off_t>(at)), 1);
  }
  void expect(Bytes holes, Bytes offset, Bytes size) {
    EXPECT_EQ(holes_in(memory_.get(), offset, size), holes);
    EXPECT_EQ(holes_by_seeking(memory_.get(), offset, size), holes);
  }
  Fd memory_ = *make_memfd("x", 16 * kPage);
};

TEST_F(Holes, WhatWasNeverWrittenIsAHole) {
  expect(16 * kPage, 0, 16 * kPage);
  write(4 * kPage, 6 * kPage);
  expect(14 * kPage, 0, 16 * kPage);
  expect(0, 4 * kPage, 2 * kPage);
  expect(kPage, 5 * kPage, 2 * kPage);
  write(0, 16 * kPage);
  expect(0, 0, 16 * kPage);
}

TEST_F(Holes, AskingMakesNoPages) {
  expect(16 * kPage, 0, 16 * kPage);
  struct stat facts{};
  ASSERT_EQ(::fstat(memory_.get(), &facts), 0);
  EXPECT_EQ(facts.st_blocks, 0);
}

}  // namespace
}  // namespace gantry
