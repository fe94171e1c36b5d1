#include <atomic>
#include <random>
#include <thread>

#include "core/base/os/socket.hpp"
#include "core/base/test_effort.hpp"
#include "link_suite.hpp"

// What every link promises of bytes, signals and tickets (gantry/link.hpp).
namespace gantry {
namespace {

constexpr Bytes kRoom = 6 * kMiB;

class LinkTransfers : public LinkConformance {
 protected:
  void SetUp() override {
    connect({.stall_limit = {}});  // nothing is awaited again only because it takes long
    fill(bytes_of(here_), 1);
    fill(bytes_of(there_), 2);
    exported_here_ = *a_->export_region(here_, RemoteAccess::read);
    exported_there_ = *b_->export_region(there_, RemoteAccess::read_write);
    plain_ = some_bytes(kRoom, 3);
    plainly_exported_ = *b_->export_memory(plain_, RemoteAccess::read_write);
    settle();
  }
  [[nodiscard]] ByteSpan here(Bytes offset, Bytes size) const {
    return bytes_of(here_).subspan(offset, size);
  }

  Region here_ = region(kRoom);
  Region there_ = region(kRoom);
  std::vector<std::byte> plain_;  // at the far end, too, in no region
  Export exported_here_, exported_there_, plainly_exported_;
};

const Bytes kSizes[] = {0, 1, 63, 4096, 65537, kMiB - 1, kMiB, kMiB + 1, 5 * kMiB + 7};
const std::vector<Bytes> kOffsets =
    has_thread_sanitizer() ? std::vector<Bytes>{4095} : std::vector<Bytes>{0, 1, 4095};

TEST_P(LinkTransfers, APutChangesItsBytesAndNoOthers) {
  std::vector<std::byte> wanted;
  std::uint64_t seed = 10;
  for (const Bytes size : kSizes)
    for (const Bytes offset : kOffsets) {
      fill(bytes_of(here_), ++seed);
      wanted.assign(there_.data(), there_.data() + kRoom);
      std::memcpy(wanted.data() + offset, here_.data() + 77, size);
      ASSERT_TRUE(put(Transfer::of(here(77, size), exported_there_.remote(), offset)));
      ASSERT_TRUE(are_equal(wanted, bytes_of(there_))) << size << " at " << offset;
    }
  EXPECT_EQ(a_->report().puts, std::size(kSizes) * kOffsets.size());
  EXPECT_EQ(b_->report().landed_bytes, a_->report().put_bytes);
}

TEST_P(LinkTransfers, AGetChangesItsBytesAndNoOthers) {
  std::vector<std::byte> wanted;
  std::uint64_t seed = 100;
  for (const Bytes size : kSizes)
    for (const Bytes offset : kOffsets) {
      fill(bytes_of(there_), ++seed);
      wanted.assign(here_.data(), here_.data() + kRoom);
      std::memcpy(wanted.data() + 77, there_.data() + offset, size);
      ASSERT_TRUE(get(Transfer::of(here(77, size), exported_there_.remote(), offset)));
      ASSERT_TRUE(are_equal(wanted, bytes_of(here_))) << size << " at " << offset;
    }
  EXPECT_EQ(a_->report().gets, std::size(kSizes) * kOffsets.size());
}

TEST_P(LinkTransfers, MemoryThatIsInNoRegionWorksAsWell) {
  auto mine = some_bytes(3 * kMiB + 5, 7);
  ASSERT_TRUE(put(Transfer::of(mine, plainly_exported_.remote(), 9)));
  EXPECT_TRUE(are_equal(mine, std::span(plain_).subspan(9, mine.size())));
  std::vector<std::byte> back(mine.size());
  ASSERT_TRUE(get(Transfer::of(back, plainly_exported_.remote(), 9)));
  EXPECT_TRUE(are_equal(back, mine));
}

// Against a plain loop over rows, all memory of both ends compared each time.
TEST_P(LinkTransfers, StridedOnesEqualAPlainLoop) {
  std::mt19937_64 random(test_seed(5));
  const auto below = [&random](Bytes limit) { return random() % limit; };
  constexpr Bytes kSmall = 200'000;
  auto own = some_bytes(kSmall, 8);
  for (int round = 0; round < 400; round += kTestStride == 1 ? 1 : 7) {
    const bool is_put = below(2) == 0;
    const bool is_plain_there = below(3) == 0;
    const bool is_plain_here = below(3) == 0;
    std::byte* const local = is_plain_here ? own.data() : here_.data();
    std::byte* const remote = is_plain_there ? plain_.data() : there_.data();
    Transfer transfer;
    transfer.remote = (is_plain_there ? plainly_exported_ : exported_there_).remote();
    transfer.rows = below(300);
    transfer.row_bytes = below(round % 2 == 0 ? 40 : 300);
    transfer.local_stride = transfer.row_bytes + below(4) * below(50);
    transfer.remote_stride = transfer.row_bytes + below(4) * below(50);
    const Bytes local_offset = below(4000);
    transfer.local = local + local_offset;
    transfer.remote_offset = below(4000);
    std::vector<std::byte> wanted_here(local, local + kSmall);
    std::vector<std::byte> wanted_there(remote, remote + kSmall);
    for (Bytes row = 0; row < transfer.rows; ++row) {
      std::byte* const mine = &wanted_here[local_offset + row * transfer.local_stride];
      std::byte* const its = &wanted_there[transfer.remote_offset + row * transfer.remote_stride];
      std::memcpy(is_put ? its : mine, is_put ? mine : its, transfer.row_bytes);
    }
    const auto done = is_put ? put(transfer) : get(transfer);
    ASSERT_TRUE(done) << to_string(done.error());
    ASSERT_TRUE(are_equal(wanted_here, {local, kSmall})) << round;
    ASSERT_TRUE(are_equal(wanted_there, {remote, kSmall})) << round;
  }
}

TEST_P(LinkTransfers, StridedOnesBeyondOnePieceEqualAPlainLoop) {
  struct Shape {
    Bytes rows, row_bytes, here, there;
  };
  for (const Shape& shape :
       {Shape{3, kMiB + 333, kMiB + 400, kMiB + 500}, Shape{3, kMiB + 333, kMiB + 333, kMiB + 500},
        Shape{3, kMiB + 333, kMiB + 500, kMiB + 333}, Shape{5000, 700, 900, 800},
        Shape{2, kMiB, kMiB, kMiB + 1}}) {
    fill(bytes_of(here_), shape.rows + shape.here);
    std::vector<std::byte> wanted(there_.data(), there_.data() + kRoom);
    for (Bytes row = 0; row < shape.rows; ++row)
      std::memcpy(&wanted[11 + row * shape.there], here_.data() + 5 + row * shape.here,
                  shape.row_bytes);
    Transfer transfer;
    transfer.local = here_.data() + 5;
    transfer.remote = exported_there_.remote();
    transfer.remote_offset = 11;
    transfer.rows = shape.rows;
    transfer.row_bytes = shape.row_bytes;
    transfer.local_stride = shape.here;
    transfer.remote_stride = shape.there;
    ASSERT_TRUE(put(transfer));
    ASSERT_TRUE(are_equal(wanted, bytes_of(there_)));
    std::vector<std::byte> before(here_.data(), here_.data() + kRoom);
    ASSERT_TRUE(get(transfer));  // the same bytes back to where they came from
    ASSERT_TRUE(are_equal(before, bytes_of(here_)));
  }
}

// The far end looks at the bytes the moment it has the signal.
TEST_P(LinkTransfers, ASignalComesAfterTheBytes) {
  const std::uint64_t kRounds = has_thread_sanitizer() ? 20 : 100;
  constexpr Bytes kSize = 2 * kMiB;
  std::atomic<int> wrong{0};
  std::thread far([&] {
    const std::byte thanks{1};
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      const auto signal = b_->receive_signal(patience());
      if (!signal || *signal != round) ++wrong;
      const ConstByteSpan landed = bytes_of(there_).first(kSize);
      if (!test::all_are(landed, static_cast<std::byte>(round))) ++wrong;
      if (!b_->send_control({&thanks, 1}, patience())) ++wrong;
    }
  });
  std::array<std::byte, 8> thanks{};
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    std::fill_n(here_.data(), kSize, static_cast<std::byte>(round));
    const auto ticket = a_->put(Transfer::of(here(0, kSize), exported_there_.remote(), 0, round));
    ASSERT_TRUE(ticket);
    ASSERT_TRUE(a_->receive_control(thanks, patience()));
    ASSERT_TRUE(a_->wait(*ticket, patience()));
  }
  far.join();
  EXPECT_EQ(wrong, 0);
}

// The far end overwrites what was read the moment it has the signal.
TEST_P(LinkTransfers, TheSignalOfAGetComesWhenAllWasRead) {
  constexpr std::uint64_t kRounds = 50;
  constexpr Bytes kSize = 2 * kMiB;
  std::fill_n(there_.data(), kSize, std::byte{1});
  std::atomic<int> wrong{0};
  std::thread far([&] {
    const std::byte ready{1};
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      if (b_->receive_signal(patience()) != round) ++wrong;
      std::fill_n(there_.data(), kSize, static_cast<std::byte>(round + 1));
      if (!b_->send_control({&ready, 1}, patience())) ++wrong;
    }
  });
  std::array<std::byte, 8> ready{};
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    const auto ticket = a_->get(Transfer::of(here(0, kSize), exported_there_.remote(), 0, round));
    ASSERT_TRUE(ticket);
    ASSERT_TRUE(a_->wait(*ticket, patience()));
    EXPECT_TRUE(test::all_are(here(0, kSize), static_cast<std::byte>(round))) << round;
    ASSERT_TRUE(a_->receive_control(ready, patience()));
  }
  far.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(LinkTransfers, NothingIsMovedByNoBytesButTheSignal) {
  Transfer nothing = Transfer::of({}, exported_there_.remote(), kRoom, 42);
  ASSERT_TRUE(put(nothing));
  EXPECT_EQ(b_->receive_signal(patience()), 42u);
  nothing.signal = 43;
  ASSERT_TRUE(get(nothing));
  EXPECT_EQ(b_->receive_signal(patience()), 43u);
  nothing.rows = 0;
  nothing.row_bytes = 5000;
  nothing.signal = 44;
  ASSERT_TRUE(put(nothing));
  EXPECT_EQ(b_->receive_signal(patience()), 44u);
}

TEST_P(LinkTransfers, SignalsComeInTheOrderOfThePuts) {
  std::vector<Ticket> tickets;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const bool is_large = i % 7 == 0;
    const Bytes offset = is_large ? kMiB + i / 7 * 150'000 : i * 100;
    const auto ticket = a_->put(
        Transfer::of(here(0, is_large ? 150'000 : 100), exported_there_.remote(), offset, i));
    ASSERT_TRUE(ticket);
    tickets.push_back(*ticket);
  }
  for (const Ticket ticket : tickets) ASSERT_TRUE(finish(*a_, ticket));
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_EQ(b_->receive_signal(patience()), i);
}

// What is shared may take another way than what is not, and than a signal alone.
TEST_P(LinkTransfers, SignalsOfEveryWayComeInTheOrderOfThePuts) {
  constexpr Bytes kEach = 150'000;
  constexpr std::uint64_t kPuts = 24;
  const std::vector<std::byte> plain = some_bytes(kEach, 5);
  const auto source_of = [&](std::uint64_t i) {
    return i % 3 == 0   ? ConstByteSpan(here(0, kEach))
           : i % 3 == 1 ? ConstByteSpan()
                        : ConstByteSpan(plain);
  };
  std::vector<Ticket> tickets;
  for (std::uint64_t i = 0; i < kPuts; ++i) {
    const auto ticket = a_->put(Transfer::of(source_of(i), exported_there_.remote(), i * kEach, i));
    ASSERT_TRUE(ticket);
    tickets.push_back(*ticket);
  }
  for (std::uint64_t i = 0; i < kPuts; ++i) {
    std::optional<std::uint64_t> signal;
    ASSERT_TRUE(pump_until([&] {
      const auto one = b_->receive_signal(Deadline::now());
      if (one) signal = *one;
      return signal.has_value();
    }));
    ASSERT_EQ(signal, i);
    const ConstByteSpan sent = source_of(i);
    ASSERT_TRUE(are_equal(sent, bytes_of(there_).subspan(i * kEach, sent.size()))) << i;
  }
  for (const Ticket ticket : tickets) ASSERT_TRUE(finish(*a_, ticket));
}

TEST_P(LinkTransfers, LargeOnesInBothDirectionsAtOnceDoNotBlockEachOther) {
  const auto back = *a_->export_region(here_, RemoteAccess::read_write);
  Region more = region(kRoom);
  fill(bytes_of(more), 9);
  const auto there = a_->put(Transfer::of(bytes_of(more), exported_there_.remote()));
  const auto from = b_->put(Transfer::of(plain_, back.remote()));
  ASSERT_TRUE(there && from);
  EXPECT_TRUE(finish(*a_, *there));
  EXPECT_TRUE(finish(*b_, *from));
  EXPECT_TRUE(are_equal(bytes_of(more), bytes_of(there_)));
  EXPECT_TRUE(are_equal(plain_, bytes_of(here_)));
}

// Four threads wait for transfers of their own; one of them at a time sleeps on the socket.
TEST_P(LinkTransfers, ManyThreadsShareALink) {
  std::atomic<int> wrong{0};
  std::atomic<bool> is_over{false};
  std::thread far([&] {
    while (!is_over)
      static_cast<void>(b_->receive_signal(Deadline::after(std::chrono::milliseconds(5))));
  });
  std::vector<std::thread> threads;
  for (Bytes who = 0; who < 4; ++who)
    threads.emplace_back([&, who] {
      constexpr Bytes kShare = 300'000;
      std::vector<std::byte> back(kShare);
      for (Bytes round = 0; round < 20; ++round) {
        const auto mine = some_bytes(kShare - round, who * 100 + round);
        const auto ticket = a_->put(Transfer::of(mine, exported_there_.remote(), who * kShare));
        if (!ticket || !a_->wait(*ticket, patience())) ++wrong;
        const auto again = a_->get(Transfer::of(std::span(back).first(mine.size()),
                                                exported_there_.remote(), who * kShare));
        if (!again || !a_->wait(*again, patience())) ++wrong;
        if (!are_equal(mine, std::span(back).first(mine.size()))) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  far.join();
  EXPECT_EQ(wrong, 0);
}

// A thread sleeps until its transfer has ended; another one reads what tells that.
TEST_P(LinkTransfers, WhoSleepsIsWokenByWhoReadsForIt) {
  constexpr int kRounds = 300;
  std::atomic<bool> is_over{false};
  std::thread far([&] {
    while (!is_over)
      static_cast<void>(b_->receive_signal(Deadline::after(std::chrono::milliseconds(5))));
  });
  std::atomic<int> done{0};
  const auto mine = some_bytes(5000, 1);
  std::thread sleeper([&] {
    for (int round = 0; round < kRounds; ++round) {
      const auto ticket = a_->put(Transfer::of(mine, exported_there_.remote()));
      if (!ticket || !a_->wait(*ticket, Deadline::never())) return;
      ++done;
    }
  });
  for (const Deadline enough = patience(); done < kRounds && !enough.passed();) a_->poll();
  EXPECT_EQ(done, kRounds);
  if (done < kRounds) a_->close();
  sleeper.join();
  is_over = true;
  far.join();
}

// A thread sleeps until a signal comes; another one's call sends the rest of an answer, whose end
// raises it.
TEST_P(LinkTransfers, WhoSleepsForASignalIsWokenByWhoEndsItsAnswer) {
  constexpr int kRounds = 100;
  const Export given = a_->export_memory(here(0, kMiB), RemoteAccess::read).value();
  std::atomic<int> heard{0};
  std::atomic<bool> is_over{false};
  std::thread sleeper([&] {
    while (a_->receive_signal(Deadline::never())) ++heard;
  });
  std::thread other([&] {
    std::vector<std::byte> memory(64);
    while (!is_over) {
      static_cast<void>(a_->export_memory(memory, RemoteAccess::read));
      std::this_thread::yield();  // the sleeper needs the link's lock, too
    }
  });
  std::vector<std::byte> back(kMiB);
  std::string trouble;
  int round = 0;
  for (const Deadline enough = patience(); round == heard && round < kRounds; ++round) {
    const auto ticket = b_->get(Transfer::of(std::span(back), given.remote(), 0, 7));
    const auto landed =
        ticket ? b_->wait(*ticket, enough) : Result<void>(tl::unexpected(ticket.error()));
    if (!landed) {
      trouble = landed.error().message;
      break;
    }
    while (heard <= round && !enough.passed()) std::this_thread::yield();
  }
  EXPECT_EQ(heard, kRounds) << "after " << round << " gets; " << trouble;
  is_over = true;
  other.join();
  a_->close();
  sleeper.join();
}

// One call takes in what another one hands out: a loop that asked for that before hears of it by
// poll(), before it sleeps on the descriptor, which is silent then.
TEST_P(LinkTransfers, PollTellsOfWhatOtherCallsTookIn) {
  std::array<std::byte, 8> word{};
  for (int round = 0; round < 10; ++round) {
    while (b_->poll()) {
    }
    ASSERT_TRUE(a_->send_control(word, patience()));
    ASSERT_TRUE(wait_readable(b_->descriptor(), patience()).value());
    ASSERT_FALSE(b_->receive_signal(Deadline::now()));
    EXPECT_TRUE(b_->poll());
    EXPECT_TRUE(b_->receive_control(word, Deadline::now()));
  }
}

TEST_P(LinkTransfers, TellsWhatTransfersTakeAndWhy) {
  const auto transfer = Transfer::of(here(0, kMiB), exported_there_.remote());
  const auto text = a_->explain(transfer).text();
  EXPECT_NE(text.find(a_->peer()), text.npos) << text;
  EXPECT_EQ(text.starts_with(to_string(a_->kind())), true) << text;
  EXPECT_GT(a_->explain(transfer).reasons.size(), 1u);
  const Cost before = a_->cost();
  EXPECT_GT(before.bytes_per_ns, 0);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(put(transfer));
  EXPECT_NE(a_->cost().bytes_per_ns, before.bytes_per_ns);
  if (a_->kind() == LinkKind::shared) {
    EXPECT_EQ(b_->report().pulled_bytes, 20 * kMiB);
  }
}

INSTANTIATE_TEST_SUITE_P(Links, LinkTransfers, testing::ValuesIn(kLinks), name_of);

}  // namespace
}  // namespace gantry
