#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "core/engine/inline/inline_engine.hpp"
#include "image/keep/kept_message.hpp"
#include "image/keep/test_kept.hpp"
#include "image/load/test_gated_file_io.hpp"

// What a keeper and those who attach its images wait for, how long, and what they hear of it.
namespace gantry {
namespace {

using namespace std::chrono_literals;
using test::Content;
using test::content_of;
using test::Data;
using test::KeepThread;
using test::Kept;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(Kept, WhatIsDamagedIsSaidToEachWhoWantsItAndNobodyGetsIt) {
  const Content content = content_of(1);
  const KeptFile model = file("model", content), other = file("other", content_of(2));
  const Data whole = test::read_file(model.path);
  Data bytes = whole;
  bytes[bytes.size() - 5000] ^= std::byte{1};
  test::write_file(model.path, bytes);
  KeepThread keeper({model, other}, keep_);
  EXPECT_THAT(keeper.trouble("model").trouble, HasSubstr("chunk"));
  keeper.there("other");
  for (int round = 0; round < 3; ++round) {  // none of them has a deadline
    const auto image = attach("model");
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error().code, Code::invalid_argument);
    EXPECT_THAT(to_string(image.error()),
                AllOf(HasSubstr("image 'model': its keeper cannot load it: " + model.path),
                      HasSubstr("chunk"), HasSubstr("; copy it again from where it came")));
  }
  EXPECT_TRUE(attach("other"));
  test::write_file(model.path, whole);  // the same file
  Result<AttachedImage> image = attach("model");
  while (!image) image = attach("model");  // until it is tried again
  expect_all(*image, content);
}

TEST_F(Kept, WhoWaitsForRoomHearsInTheEndThatThereIsNone) {
  const Content content = content_of(1);
  keep_.budget_bytes = Bytes{9} << 20;  // for one of 8 MiB
  KeepThread keeper({file("a", content), file("b", content_of(2))}, keep_);
  std::optional a(*attach("a"));
  const auto image = attach("b", Deadline::after(300ms));
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, Code::timed_out);
  EXPECT_THAT(to_string(image.error()),
              AllOf(HasSubstr("image 'b': it was not there when time was up: no room for "),
                    HasSubstr("; raise the budget, or end a reader of another image")));
  std::thread waiter([&] { expect_all(*attach("b"), content_of(2)); });
  keeper.trouble("b");
  a.reset();
  waiter.join();
}

TEST_F(Kept, ServingEndsByTheCallersClockAndTheLoadGoesOn) {
  const Content content = content_of(1);
  const auto io = std::make_shared<test::GatedFileIo>(0);
  keep_.file_io = io;
  keep_.workers = 1;
  auto keeper = ImageKeeper::open({file("model", content)}, keep_);
  ASSERT_TRUE(keeper);
  std::thread reader([&] { expect_all(*attach("model"), content); });
  bool is_there = false;
  const auto serve = [&] {
    return keeper->serve([&](const KeptImage& image) { is_there = image.is_there; },
                         Deadline::after(20ms));
  };
  for (int round = 0; round < 3; ++round) {  // no read ends
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(serve().error().code, Code::timed_out);
    EXPECT_GE(std::chrono::steady_clock::now() - began, 20ms);
    EXPECT_FALSE(is_there);
  }
  io->allow(1000);
  while (!is_there) EXPECT_EQ(serve().error().code, Code::timed_out);
  reader.join();
  auto asked = io->asked();
  std::ranges::sort(asked);
  EXPECT_EQ(std::ranges::adjacent_find(asked), asked.end());  // nothing was read twice
}

TEST_F(Kept, WithNothingToDoAKeeperSleeps) {
  const auto sleeps_of = [](pid_t thread) {
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("voluntary_ctxt_switches:")) return std::stol(line.substr(24));
    return -1L;
  };
  std::atomic<pid_t> thread = 0;
  const Fd stop = *make_event();
  keep_.interrupt_descriptor = stop.get();
  auto keeper = ImageKeeper::open({file("model", content_of(1))}, keep_);
  ASSERT_TRUE(keeper);
  std::thread serves([&] {
    const auto note = [&](const KeptImage&) { thread = static_cast<pid_t>(::syscall(SYS_gettid)); };
    EXPECT_EQ(keeper->serve(note).error().code, Code::interrupted);
  });
  const auto image = attach("model");
  ASSERT_TRUE(image);
  const auto ask_for = [&](std::chrono::milliseconds time) {  // the acceptor answers
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) EXPECT_TRUE(has_readers());
  };
  ask_for(100ms);
  const long before = sleeps_of(thread);
  EXPECT_GT(before, 0);
  ask_for(300ms);
  EXPECT_LE(sleeps_of(thread) - before, 1);  // it may have been on its way
  ring(stop.get());
  serves.join();
}

TEST_F(Kept, TroubleOfAStrangerIsShownAndNotTrusted) {
  ProducerOptions how;
  how.directory = channels_.path();
  how.history = 1;
  const auto said = [&](std::uint64_t code, const std::string& text) {
    auto producer = Producer::open("model", how, *make_inline_engine());
    EXPECT_TRUE(producer);
    EXPECT_TRUE(producer->send(std::as_bytes(std::span(text)),
                               {.type = image::kKeptTrouble, .user = code}));
    return attach("model", Deadline::after(100ms)).error();
  };
  const auto code = [](Code one) { return static_cast<std::uint64_t>(one); };
  using namespace std::string_literals;
  EXPECT_THAT(to_string(said(code(Code::system), "why\n\x1b[31m\0mend\0it"s)),
              "image 'model': its keeper cannot load it: why??[31m; mend?it");
  EXPECT_EQ(said(code(Code::system), "x").code, Code::system);
  EXPECT_EQ(said(code(Code::timed_out), "x").code, Code::peer_misbehaved);
  EXPECT_EQ(said(~std::uint64_t{0}, "").code, Code::peer_misbehaved);
  EXPECT_EQ(said(code(Code::busy), "full").code, Code::timed_out);
  EXPECT_LT(said(code(Code::system), std::string(1 << 20, 'x')).message.size(), 5000u);
}

}  // namespace
}  // namespace gantry
