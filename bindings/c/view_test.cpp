// c/view_test.cpp: private views: what is written stays here, and goes with them.

#include <sys/mman.h>

#include <array>
#include <fstream>

#include "test_ends.hpp"

namespace gantry::c::test {
namespace {

using View = Ends;

constexpr std::size_t kPage = 4096;

struct Viewed {
  Owned<gantry_view> view;
  unsigned char* data = nullptr;
};
Viewed view_of(const Owned<gantry_message>& message, std::size_t index = 0) {
  Viewed made;
  void* data = nullptr;
  EXPECT_OK(gantry_message_view(message.get(), index, Out(made.view), &data));
  made.data = static_cast<unsigned char*>(data);
  return made;
}

/// The bytes of private pages behind an address, by /proc/self/smaps; -1: nothing is mapped there.
long private_bytes_at(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)  // NOLINT: checked
      here = begin <= wanted && wanted < end;
    long kib = 0;
    if (here && std::sscanf(line.c_str(), "Anonymous: %ld kB", &kib) == 1) return kib * 1024;
  }
  return -1;
}

// At the edge below which all is copied, on both sides; and segments that begin within a page.
TEST_F(View, ShowsTheBytesAndKeepsWritesToItself) {
  const auto out = producer();
  const auto in = consumer();
  for (const std::size_t size : {1UL, 64UL, 65UL, 65'535UL, 65'536UL, 65'537UL, 1UL << 20}) {
    const auto first = bytes_of(1, 100);
    const auto second = bytes_of(2, size);
    const std::array parts{part_of(first), part_of(second)};
    ASSERT_OK(gantry_send(out.get(), parts.data(), 2, kPatienceNs, nullptr));
    const auto message = receive(in);
    const Viewed one = view_of(message, 1);
    const Viewed other = view_of(message, 1);
    ASSERT_TRUE(are_of(one.data, size, 2)) << size;
    fill(one.data, size, 3);
    EXPECT_TRUE(are_of(one.data, size, 3));
    EXPECT_TRUE(are_of(other.data, size, 2));
    EXPECT_TRUE(are_of(segment_of(message.get(), 1).data, size, 2));
    EXPECT_TRUE(are_of(segment_of(message.get(), 0).data, 100, 1));
  }
}

TEST_F(View, OfAnEmptySegmentHasNoBytes) {
  const auto out = producer();
  const auto in = consumer();
  ASSERT_OK(gantry_send(out.get(), nullptr, 0, kPatienceNs, nullptr));
  const auto message = receive(in);
  EXPECT_EQ(view_of(message).data, nullptr);
  Owned<gantry_view> none;
  void* data = nullptr;
  EXPECT_REFUSED(gantry_message_view(message.get(), 1, Out(none), &data), GANTRY_INVALID_ARGUMENT,
                 "no segment 1 in a message of 1", "");
}

TEST_F(View, CopiesOnlyThePagesThatAreWritten) {
  const auto out = producer();
  const auto in = consumer();
  constexpr std::size_t kBytes = 1 << 20;
  send(out, bytes_of(1, kBytes));
  const auto message = receive(in);
  Viewed viewed = view_of(message);
  ASSERT_TRUE(are_of(viewed.data, kBytes, 1));  // read, all of it
  EXPECT_EQ(private_bytes_at(viewed.data), 0);
  for (const std::size_t page : {0, 7, 100}) viewed.data[page * kPage + 5] ^= 0xff;
  const auto page_bytes = static_cast<long>(::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(private_bytes_at(viewed.data), 3 * page_bytes);
  const unsigned char* const data = viewed.data;
  viewed.view.reset();
  EXPECT_LE(private_bytes_at(data), 0);  // they went with it
}

TEST_F(View, KeepsTheMessageFromItsSender) {
  gantry_producer_options options{};
  options.size = sizeof options;
  options.slots = 1;
  const auto out = producer(&options);
  auto in = consumer();
  const auto bytes = bytes_of(1, 1 << 20);
  send(out, bytes);
  auto message = receive(in);
  Viewed viewed = view_of(message);
  message.reset();
  const auto next = bytes_of(2, 1 << 20);
  const gantry_part part = part_of(next);
  EXPECT_REFUSED(gantry_send(out.get(), &part, 1, 0, nullptr), GANTRY_TIMED_OUT, "'c'", "");
  EXPECT_TRUE(are_of(viewed.data, 1 << 20, 1));
  viewed.view.reset();
  EXPECT_OK(gantry_send(out.get(), &part, 1, kPatienceNs, nullptr));
}

TEST_F(View, OutlivesEverythingElse) {
  auto out = producer();
  auto in = consumer();
  send(out, bytes_of(1, 1 << 20));
  Viewed viewed = view_of(receive(in));
  in.reset();
  out.reset();
  runtime_.reset();
  EXPECT_TRUE(are_of(viewed.data, 1 << 20, 1));
  fill(viewed.data, 1 << 20, 2);
  EXPECT_TRUE(are_of(viewed.data, 1 << 20, 2));
}

TEST_F(View, OfAStreamedMessageIsACopy) {
  gantry_producer_options options{};
  options.size = sizeof options;
  options.mode = GANTRY_MODE_STREAMED;
  const auto out = producer(&options);
  const auto in = consumer();
  const auto bytes = bytes_of(1, 3 << 20);
  std::uint64_t ticket = 0;
  const gantry_part part = part_of(bytes);
  ASSERT_OK(gantry_send_async(out.get(), &part, 1, kPatienceNs, nullptr, &ticket));
  const auto message = receive(in);
  ASSERT_OK(gantry_ticket_wait(out.get(), ticket, kPatienceNs));
  const Viewed viewed = view_of(message);
  EXPECT_TRUE(are_of(viewed.data, bytes.size(), 1));
  viewed.data[0] ^= 0xff;
  EXPECT_TRUE(are_of(segment_of(message.get()).data, bytes.size(), 1));
}

}  // namespace
}  // namespace gantry::c::test
