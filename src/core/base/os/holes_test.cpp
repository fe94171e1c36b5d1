#include "core/base/os/holes.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/os/memfd.hpp"
#include "core/base/sizes.hpp"

namespace gantry {
namespace {

class Holes : public testing::Test {
 protected:
  /// Writes one byte into each page of [from, to).
  void write(Bytes from, Bytes to) {
    for (Bytes at = from; at < to; at += kSmallestPage)
      ASSERT_EQ(::pwrite(memory_.get(), "x", 1, static_cast<off_t>(at)), 1);
  }
  void expect(Bytes holes, Bytes offset, Bytes size) {
    EXPECT_EQ(holes_in(memory_.get(), offset, size), holes);
    EXPECT_EQ(holes_by_seeking(memory_.get(), offset, size), holes);
  }
  Fd memory_ = *make_memfd("x", 16 * kSmallestPage);
};

TEST_F(Holes, WhatWasNeverWrittenIsAHole) {
  expect(16 * kSmallestPage, 0, 16 * kSmallestPage);
  write(4 * kSmallestPage, 6 * kSmallestPage);
  expect(14 * kSmallestPage, 0, 16 * kSmallestPage);
  expect(0, 4 * kSmallestPage, 2 * kSmallestPage);
  expect(kSmallestPage, 5 * kSmallestPage, 2 * kSmallestPage);
  write(0, 16 * kSmallestPage);
  expect(0, 0, 16 * kSmallestPage);
}

TEST_F(Holes, PagesBehindTheEndMakeUpForNone) {
  const Bytes size = Bytes{2} << 20;
  memory_ = *make_memfd("x", size);
  write(0, size);
  expect(0, 0, size);
  memory_ = Fd(::memfd_create("x", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memory_.get(), static_cast<off_t>(size)), 0);
  ASSERT_EQ(::fallocate(memory_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size),
                        static_cast<off_t>(size)),
            0);
  expect(size, 0, size);
}

TEST_F(Holes, AskingMakesNoPages) {
  expect(16 * kSmallestPage, 0, 16 * kSmallestPage);
  struct stat facts{};
  ASSERT_EQ(::fstat(memory_.get(), &facts), 0);
  EXPECT_EQ(facts.st_blocks, 0);
}

}  // namespace
}  // namespace gantry
