#include "device/file/uring/file_io.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "core/base/os/fd.hpp"

// What io_uring can and blocking calls cannot: take back what waits in the kernel.
namespace gantry {
namespace {

TEST(UringFileIo, WhatTheKernelCanStopIsGivenBackWhenCancelled) {
  const auto io = make_uring_file_io();
  if (!io) GTEST_SKIP() << to_string(io.error());
  const auto lane = *(*io)->open_lane();
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const Fd sender(ends[1]);
  const auto pipe = std::make_shared<OpenFile>(ends[0], "the pipe");
  std::vector<std::byte> there(100);
  for (int round = 0; round < 1000; ++round) {  // some at the moment when it begins to wait
    const Ticket ticket = *lane->submit({FileTransfer::Kind::read, pipe, 0, there});
    EXPECT_EQ(lane->wait(ticket, Deadline::now()).error().code, Code::timed_out);
    lane->cancel();
    EXPECT_EQ(lane->wait(ticket).error().code, Code::interrupted);
    EXPECT_TRUE(lane->drain());  // nobody has written: it was taken back
  }
  const Ticket ticket = *lane->submit({FileTransfer::Kind::read, pipe, 0, there});
  ASSERT_EQ(::write(sender.get(), std::vector<char>(100, 'p').data(), 100), 100);
  EXPECT_TRUE(lane->wait(ticket));
  EXPECT_EQ(there.back(), std::byte{'p'});
}

}  // namespace
}  // namespace gantry
