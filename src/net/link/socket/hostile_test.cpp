#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "core/base/os/fd.hpp"
#include "core/base/os/memfd.hpp"
#include "core/base/os/rights.hpp"
#include "core/base/test_effort.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "net/link/record.hpp"

// A peer that speaks the wire's language by hand. Whatever it says, the link ends with one clear
// error at most, and no byte lands outside of what was exported for it.
namespace gantry {
namespace {

using Kind = LinkRecord::Kind;

constexpr const char* kForeign = "it does not speak this link's protocol and version";
constexpr const char* kSilent = "it closed the connection without a word";
constexpr const char* kOnePiece = "in one piece, beyond 1048576";
constexpr const char* kUnasked = "descriptors that nobody asked for";
constexpr const char* kNotShared = "a put out of memory that it does not share (key 0x1)";

class HostilePeer : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { connect(); }

  void connect() {
    exported_ = {};
    readable_ = {};
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    raw_.reset(ends[0]);
    const LinkOptions options{.peer = "mallory", .stall_limit = {}};
    link_ = GetParam() ? *make_shared_link(ends[1], *make_inline_engine(), options)
                       : *make_stream_link(ends[1], options);
    std::ranges::fill(memory_, std::byte{7});
    exported_ = *link_->export_memory(std::span(memory_).subspan(1000, 1000), RemoteAccess::write);
    readable_ = *link_->export_memory(std::span(memory_).subspan(3000, 1000), RemoteAccess::read);
  }
  [[nodiscard]] bool is_untouched() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < 1000 || i >= 2000) && memory_[i] != std::byte{7}) return false;
    return true;
  }

  void say(ConstByteSpan bytes, std::span<const int> fds = {}) const {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: sendmsg reads only
    alignas(cmsghdr) ControlBuffer control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    add_fds(message, control, fds);
    static_cast<void>(!::sendmsg(raw_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
  }
  void say(const LinkRecord& record, Bytes payload = 0, std::span<const int> fds = {}) const {
    const auto head = record.encode();
    std::vector<std::byte> bytes(head.begin(), head.end());
    bytes.resize(bytes.size() + payload, std::byte{9});
    say(bytes, fds);
  }
  /// What the link has sent so far.
  [[nodiscard]] std::vector<LinkRecord> heard() const {
    std::vector<LinkRecord> records;
    for (LinkRecord::Encoded head{}; ::recv(raw_.get(), head.data(), head.size(), MSG_DONTWAIT) ==
                                     static_cast<ssize_t>(head.size());)
      records.push_back(*LinkRecord::decode(head));
    return records;
  }

  [[nodiscard]] LinkRecord a_put() const {
    LinkRecord put{Kind::put};
    put.is_last = true;
    put.ticket = 1;
    put.key = exported_.remote().key;
    put.rows = 1;
    put.row_bytes = put.stride = 1000;
    return put;
  }
  [[nodiscard]] LinkRecord a_get() const {
    LinkRecord get = a_put();
    get.kind = Kind::get;
    get.key = readable_.remote().key;
    return get;
  }

  void expect_survives() {
    while (link_->poll()) continue;
    EXPECT_TRUE(link_->state());
    EXPECT_TRUE(is_untouched());
  }
  void expect_ends_by(Code code, std::string_view words) {
    while (link_->poll()) continue;
    const auto state = link_->state();
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().code, code) << state.error().message;
    EXPECT_TRUE(state.error().message.starts_with("link to mallory: "));
    EXPECT_NE(state.error().message.find(words), std::string::npos) << state.error().message;
    EXPECT_TRUE(is_untouched()) << state.error().message;
  }
  void expect_refused(std::string_view words, const auto& what) {
    connect();
    what();
    expect_ends_by(Code::peer_misbehaved, words);
    EXPECT_TRUE(std::ranges::any_of(heard(), [](const LinkRecord& record) {
      return record.kind == Kind::bye && record.status == LinkStatus::broke_rules;
    }));
  }

  Fd raw_;
  std::unique_ptr<Link> link_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(5000);
  Export exported_, readable_;
};

TEST_P(HostilePeer, WhatItMaySayIsDone) {
  say(a_put(), 1000);
  say(a_get());
  expect_survives();
  EXPECT_EQ(memory_[1999], std::byte{9});
  const auto answers = heard();
  ASSERT_GE(answers.size(), 2u);
  EXPECT_EQ(answers[0].kind, Kind::done);
  EXPECT_EQ(answers[1].kind, Kind::data);
}

TEST_P(HostilePeer, RandomBytesEndTheLink) {
  std::mt19937_64 random(test_seed(1));
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> bytes(96 + random() % 2000);
    for (std::byte& one : bytes) one = static_cast<std::byte>(random());
    expect_refused(kForeign, [&] { say(bytes); });
  }
}

TEST_P(HostilePeer, AnotherVersionIsRefused) {
  for (std::size_t i = 0; i < 4; ++i)
    expect_refused(kForeign, [&] {
      auto head = LinkRecord{Kind::alive}.encode();
      head[i] ^= std::byte{1};
      say(head);
    });
}

// Valid heads with words that are tempting, in all places.
TEST_P(HostilePeer, RandomRecordsReachNothingThatWasNotExported) {
  std::mt19937_64 random(test_seed(2));
  for (int round = 0; round < 3000; ++round) {
    connect();
    const std::uint64_t words[] = {0,    1,          2,          999,   1000,       1001,
                                   4096, 1ull << 20, 1ull << 32, ~0ull, 1ull << 63, random()};
    const auto word = [&] { return words[random() % std::size(words)]; };
    for (int i = 0; i < 4; ++i) {
      LinkRecord record;
      record.kind = static_cast<Kind>(1 + random() % 13);
      record.status = static_cast<LinkStatus>(random() % 6);
      record.has_signal = random() % 2 == 0;
      record.is_last = random() % 2 == 0;
      record.key =
          random() % 4 == 0 ? word() : (random() % 2 == 0 ? exported_ : readable_).remote().key;
      for (std::uint64_t* const at :
           {&record.ticket, &record.offset, &record.rows, &record.row_bytes, &record.stride,
            &record.source_key, &record.source_offset, &record.source_stride})
        *at = word();
      say(record, random() % 2000);
    }
    while (link_->poll()) continue;
    ASSERT_TRUE(is_untouched()) << round;
  }
}

TEST_P(HostilePeer, ATruncatedRecordIsNoneUntilItsEnd) {
  const auto head = a_put().encode();
  for (std::size_t size = 0; size < head.size(); size += 5) {
    connect();
    say(std::span(head).first(size));
    expect_survives();
    raw_.reset();
    expect_ends_by(Code::peer_gone, kSilent);
  }
  connect();
  say(a_put(), 500);  // half of its payload
  expect_survives();
  EXPECT_TRUE(heard().empty());
  raw_.reset();
  expect_ends_by(Code::peer_gone, kSilent);
}

TEST_P(HostilePeer, PutsAndGetsBeyondAnExportAreRefused) {
  for (const bool is_put : {true, false}) {
    const auto try_with = [&](const char* words, auto change) {
      expect_refused(words, [&] {
        LinkRecord record = is_put ? a_put() : a_get();
        change(record);
        say(record, 1000);
      });
    };
    try_with("was never given to it", [](LinkRecord& r) { r.key += 5; });
    try_with("key 0x0 was never given to it", [](LinkRecord& r) { r.key = 0; });
    try_with("at offset 1 of", [](LinkRecord& r) { r.offset = 1; });
    try_with("at offset 18446744073709551615 of", [](LinkRecord& r) { r.offset = ~0ull; });
    try_with("offset 18446744073709550617",
             [](LinkRecord& r) { r.offset = ~0ull - 998; });  // wraps
    try_with("1 rows of 1001 bytes at offset 0", [](LinkRecord& r) { r.row_bytes = 1001; });
    try_with(is_put ? kOnePiece : "1 rows of 18446744073709551615",
             [](LinkRecord& r) { r.row_bytes = ~0ull; });
    try_with("2 rows of 1000 bytes at offset 0", [](LinkRecord& r) { r.rows = 2; });
    try_with(is_put ? kOnePiece : "9223372036854775808 rows",
             [](LinkRecord& r) { r.rows = 1ull << 63; });
    const auto rows = [](std::uint64_t count, Bytes bytes, std::uint64_t stride) {
      return [=](LinkRecord& r) { r.rows = count, r.row_bytes = bytes, r.stride = stride; };
    };
    // The last row lies before the memory, by a stride that wraps; rows beyond it; rows that
    // overlap.
    try_with("2 rows of 100 bytes at offset 0", rows(2, 100, ~0ull - 1999));
    try_with("1000 rows of 1 bytes at offset 0", rows(1000, 1, 2));
    try_with("10 rows of 100 bytes at offset 0", rows(10, 100, 50));
    try_with("is not exported for that",
             [&](LinkRecord& r) { r.key = (is_put ? readable_ : exported_).remote().key; });
  }
}

TEST_P(HostilePeer, ManyWordsThatFitNothingAreRefused) {
  const auto refuse = [this](const char* words, const LinkRecord& record, Bytes payload = 0) {
    expect_refused(words, [&] { say(record, payload); });
  };
  LinkRecord gigantic = a_put();
  gigantic.row_bytes = (Bytes{1} << 20) + 1;
  refuse(kOnePiece, gigantic);
  const LinkRecord done{.kind = Kind::done, .ticket = 1};
  refuse("the end of a transfer that is not under way", done);  // of a transfer that nobody began
  const LinkRecord data{.kind = Kind::data, .ticket = 1, .rows = 1, .row_bytes = 1};
  refuse("data that nobody asked for", data, 1);
  const LinkRecord credit{.kind = Kind::credit, .rows = 1};
  refuse("it took more than it was sent", credit);
  LinkRecord control{Kind::control};
  refuse("a control message of 0 bytes", control);
  control.rows = 1;
  control.row_bytes = 4097;
  refuse("1 rows of 4097 bytes in one piece, beyond 4096", control, 4097);
  const LinkRecord share{.kind = Kind::share, .key = 1, .row_bytes = 4096};
  refuse(GetParam() ? "without a descriptor" : "with 0 descriptors", share);
  expect_refused(GetParam() ? kNotShared : "a put that a stream link should pull", [this] {
    LinkRecord mapped = a_put();  // of memory that is exported by now
    mapped.kind = Kind::put_pulled;
    mapped.source_key = 1;
    say(mapped);
  });
}

TEST_P(HostilePeer, MoreThanAgreedIsRefused) {
  LinkRecord control{Kind::control};
  control.rows = control.row_bytes = 1;
  expect_refused("more control messages than allowed", [&] {
    for (int i = 0; i < 65; ++i) say(control, 1);
  });
  const LinkRecord raise{.kind = Kind::raise, .has_signal = true};
  connect();
  for (int i = 0; i < 1024; ++i) {
    say(raise);
    link_->poll();
  }
  expect_survives();
  say(raise);
  expect_ends_by(Code::peer_misbehaved, "more signals than allowed");
}

// It asks and asks and never listens: what the link owes it does not grow for ever.
TEST_P(HostilePeer, AnswersThatNobodyTakesHaveALimit) {
  LinkRecord put = a_put();
  put.rows = 0;
  for (int i = 0; i < 1'000'000 && link_->state(); ++i) {
    say(put);
    link_->poll();
  }
  expect_ends_by(Code::peer_misbehaved, "it asks without taking answers");
  connect();
  for (int i = 0; i < 100'000 && link_->state(); ++i) {
    say(a_get());
    link_->poll();
  }
  expect_ends_by(Code::peer_misbehaved, "too many gets at a time");
}

// While a put is being sent, its memory is ours: only its whole end makes it the user's again.
TEST_P(HostilePeer, ATransferDoesNotEndBeforeItWasSent) {
  const std::vector<std::byte> mine(8 << 20);
  RemoteRegion remote{1, mine.size(), RemoteAccess::read_write};
  const auto ticket = link_->put(Transfer::of(mine, remote));
  ASSERT_TRUE(ticket);
  say(LinkRecord{.kind = Kind::done, .ticket = static_cast<std::uint64_t>(*ticket)});
  while (link_->poll()) continue;
  EXPECT_EQ(link_->state().error().code, Code::peer_misbehaved);
}

TEST_P(HostilePeer, AGetDoesNotEndBeforeItsBytesNorGetMore) {
  for (const bool is_more : {true, false}) {
    connect();
    std::vector<std::byte> into(300);
    RemoteRegion remote{1, 1000, RemoteAccess::read_write};
    const auto ticket = link_->get(Transfer::of(std::span(into).subspan(100, 100), remote));
    ASSERT_TRUE(ticket);
    LinkRecord data{Kind::data};
    data.ticket = static_cast<std::uint64_t>(*ticket);
    data.rows = 1;
    data.row_bytes = is_more ? 101 : 99;
    say(data, data.row_bytes);
    LinkRecord done{Kind::done};
    done.ticket = data.ticket;
    if (!is_more) say(done);
    expect_ends_by(Code::peer_misbehaved,
                   is_more ? "data that nobody asked for" : "the end of a get before its bytes");
    EXPECT_EQ(link_->outcome(*ticket), Outcome::failed);
    EXPECT_EQ(into[200], std::byte{0});
  }
}

TEST_P(HostilePeer, DescriptorsThatAreNoSealedMemoryAreRefused) {
  if (!GetParam()) GTEST_SKIP() << "takes no descriptors";
  LinkRecord share{Kind::share};
  share.key = 1;
  share.row_bytes = 4096;
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const Fd reading(pipe[0]), writing(pipe[1]);
  const Fd unsealed = *make_memfd("unsealed", 4096);
  const Fd sealed = *make_memfd("sealed", 4096);
  ASSERT_TRUE(seal(sealed.get(), kSizeSeals | F_SEAL_FUTURE_WRITE));
  const auto refuse = [&](const char* words, const LinkRecord& record, std::vector<int> fds) {
    expect_refused(words, [&] { say(record, 0, fds); });
  };
  refuse("seals are missing", share, {reading.get()});
  refuse("seals are missing", share, {unsealed.get()});
  refuse("a shared region with 2 descriptors", share, {sealed.get(), sealed.get()});
  refuse(kUnasked, a_get(), {sealed.get()});
  refuse(kUnasked, LinkRecord{Kind::alive}, std::vector<int>(250, reading.get()));
  share.row_bytes = Bytes{1} << 40;  // more than it has
  refuse("announced 1099511627776 bytes of memory and sent 4096", share, {sealed.get()});
}

TEST_P(HostilePeer, MappedPutsStayWithinBothRegions) {
  if (!GetParam()) GTEST_SKIP() << "maps nothing";
  const Fd sealed = *make_memfd("sealed", 4096);
  ASSERT_TRUE(seal(sealed.get(), kSizeSeals | F_SEAL_FUTURE_WRITE));
  const int fd = sealed.get();
  LinkRecord share{Kind::share};
  share.key = 1;
  share.row_bytes = 4096;
  const auto mapped = [&] {
    LinkRecord record = a_put();
    record.kind = Kind::put_pulled;
    record.source_key = 1;
    record.source_stride = 1000;
    return record;
  };
  connect();
  say(share, 0, {&fd, 1});
  say(mapped());
  expect_survives();
  EXPECT_EQ(memory_[1500], std::byte{0});
  const auto try_with = [&](const char* words, auto change) {
    expect_refused(words, [&] {
      say(share, 0, {&fd, 1});
      LinkRecord record = mapped();
      change(record);
      say(record);
    });
  };
  try_with("does not share (key 0x2)", [](LinkRecord& r) { r.source_key = 2; });
  try_with(kNotShared, [](LinkRecord& r) { r.source_offset = 3097; });
  try_with(kNotShared, [](LinkRecord& r) { r.source_offset = ~0ull; });
  try_with("at offset 1 of", [](LinkRecord& r) { r.offset = 1; });
  try_with("1 rows of 18446744073709551615 bytes at", [](LinkRecord& r) { r.row_bytes = ~0ull; });
  try_with("18446744073709551615 rows of 1000 bytes at", [](LinkRecord& r) { r.rows = ~0ull; });
  try_with("is not exported for that", [&](LinkRecord& r) { r.key = readable_.remote().key; });
  expect_refused("it shares more regions than there can be, or one twice", [&] {
    say(share, 0, {&fd, 1});
    say(share, 0, {&fd, 1});  // one key for two
  });
  expect_refused(kNotShared, [&] {
    LinkRecord unshare{Kind::unshare};
    unshare.key = 1;
    say(share, 0, {&fd, 1});
    say(unshare);
    say(mapped());
  });
}

INSTANTIATE_TEST_SUITE_P(Links, HostilePeer, testing::Bool(),
                         [](const auto& one) { return one.param ? "shared" : "stream"; });

}  // namespace
}  // namespace gantry
