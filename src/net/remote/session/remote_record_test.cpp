#include "net/remote/session/remote_record.hpp"

#include <gmock/gmock.h>

#include <random>

#include "core/base/test_effort.hpp"
#include "core/channel/test_support.hpp"
#include "net/remote/session/test_record.hpp"

namespace gantry {
namespace {

using test::pattern;
using test::same;

// Every kind of part: with and without bytes, tensors of each number of dimensions.
RemoteHead some_head(std::size_t parts, bool has_payload, unsigned dimensions) {
  RemoteHead head;
  head.number = 0x0102030405060708;
  head.info.sequence = ~std::uint64_t{0};
  head.info.user = 1;
  head.info.correlation = std::uint64_t{1} << 63;
  head.info.type = 0xfffefdfc;
  head.time_left_ns = 77;
  head.has_payload = has_payload;
  for (std::size_t i = 0; i < parts; ++i) {
    const Bytes bytes = i % 4 == 3 ? 0 : 8 + i % 5;
    RemoteHead::Part part{bytes, {}, {}};
    if (!has_payload && bytes > 0) {
      part.region = {i + 1, bytes + 3 * i, RemoteAccess::read};
      part.offset = 2 * i;
    }
    if (i % 2 == 0) part.tensor = test::bytes_tensor(dimensions, bytes);
    head.bytes += bytes;
    head.parts.push_back(part);
  }
  return head;
}

void expect_equal(const RemoteHead& left, const RemoteHead& right) {
  EXPECT_EQ(left.number, right.number);
  EXPECT_EQ(left.info.sequence, right.info.sequence);
  EXPECT_EQ(left.info.user, right.info.user);
  EXPECT_EQ(left.info.correlation, right.info.correlation);
  EXPECT_EQ(left.info.type, right.info.type);
  EXPECT_EQ(left.time_left_ns, right.time_left_ns);
  EXPECT_EQ(left.bytes, right.bytes);
  EXPECT_EQ(left.has_payload, right.has_payload);
  ASSERT_EQ(left.parts.size(), right.parts.size());
  for (std::size_t i = 0; i < left.parts.size(); ++i) {
    EXPECT_EQ(left.parts[i].bytes, right.parts[i].bytes) << i;
    EXPECT_EQ(left.parts[i].region, right.parts[i].region) << i;
    EXPECT_EQ(left.parts[i].offset, right.parts[i].offset) << i;
    EXPECT_EQ(left.parts[i].tensor, right.parts[i].tensor) << i;
  }
}

std::vector<std::byte> with_payload(const RemoteHead& head, ConstByteSpan payload) {
  auto words = head.encode();
  words.insert(words.end(), payload.begin(), payload.end());
  return words;
}

// What came over the wire, put together again; nothing if the assembler refuses a piece.
std::optional<std::vector<std::byte>> assemble(const std::vector<std::vector<std::byte>>& pieces) {
  HeadAssembler assembler;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto kind = static_cast<RemoteKind>(pieces[i][0]);
    const auto whole =
        assembler.take(kind == RemoteKind::message, ConstByteSpan(pieces[i]).subspan(1));
    if (!whole || *whole != (i + 1 == pieces.size())) return std::nullopt;
  }
  return std::vector(assembler.words().begin(), assembler.words().end());
}

void expect_refused_or_consistent(ConstByteSpan words) {
  ConstByteSpan rest;
  const auto head = RemoteHead::decode(words, rest);
  if (head) {
    EXPECT_TRUE(test::is_consistent(*head, rest.size()));
  } else {
    EXPECT_EQ(head.error().code, Code::peer_misbehaved);
  }
}

TEST(RemoteHead, ComesBackWithEveryNumberOfPartsAndDimensions) {
  for (std::size_t parts = 1; parts <= kMaxSegments; ++parts)
    for (unsigned dimensions = 0; dimensions <= Tensor::kMaxDimensions; ++dimensions)
      for (const bool has_payload : {false, true}) {
        const RemoteHead head = some_head(parts, has_payload, dimensions);
        const auto payload = pattern(has_payload ? head.bytes : 0, parts);
        const auto words = with_payload(head, payload);
        ASSERT_LE(head.encode().size(), RemoteHead::kMostBytes);
        ConstByteSpan rest;
        const auto back = RemoteHead::decode(words, rest);
        ASSERT_TRUE(back) << parts << ' ' << dimensions;
        expect_equal(*back, head);
        EXPECT_TRUE(same(rest, payload));
      }
}

TEST(RemoteHead, HasOneTo64Parts) {
  ConstByteSpan rest;
  EXPECT_FALSE(RemoteHead::decode(some_head(0, true, 0).encode(), rest));
  const auto words = some_head(kMaxSegments + 1, false, 0).encode();
  const auto head = RemoteHead::decode(words, rest);
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().code, Code::peer_misbehaved);
}

TEST(RemoteHead, CutShortOrLongIsRefused) {
  for (const bool has_payload : {false, true}) {
    const RemoteHead head = some_head(7, has_payload, 3);
    auto words = with_payload(head, pattern(has_payload ? head.bytes : 0, 1));
    for (std::size_t size = 0; size < words.size(); ++size) {
      ConstByteSpan rest;
      const auto cut = RemoteHead::decode(ConstByteSpan(words).first(size), rest);
      ASSERT_FALSE(cut) << size;
      EXPECT_EQ(cut.error().code, Code::peer_misbehaved);
    }
    words.push_back({});
    ConstByteSpan rest;
    EXPECT_FALSE(RemoteHead::decode(words, rest));
  }
}

TEST(RemoteHead, WithAnyByteChangedIsRefusedOrStillConsistent) {
  for (const bool has_payload : {false, true}) {
    const RemoteHead head = some_head(6, has_payload, 2);
    const auto words = with_payload(head, pattern(has_payload ? head.bytes : 0, 1));
    for (std::size_t at = 0; at < words.size(); ++at)
      for (unsigned value = 0; value < 256; ++value) {
        auto changed = words;
        changed[at] = static_cast<std::byte>(value);
        expect_refused_or_consistent(changed);
      }
  }
}

// Tempting words at every place, two at a time: sums that wrap, shapes that overflow.
TEST(RemoteHead, WithTemptingWordsIsRefusedOrStillConsistent) {
  std::mt19937_64 random(test_seed(1));
  const auto words = some_head(4, false, 4).encode();
  const std::uint64_t tempting[] = {
      0, 1, 255, ~0ull, ~0ull - 7, 1ull << 63, (1ull << 63) - 1, 1ull << 32};
  for (int round = 0; round < 20'000; ++round) {
    auto changed = words;
    for (int i = 0; i < 2; ++i)
      store_number(&changed[random() % (changed.size() - 7)], tempting[random() % 8], 8);
    expect_refused_or_consistent(changed);
  }
}

TEST(RemoteHead, PartsWhoseSumWrapsAreRefused) {
  RemoteHead head;
  for (const Bytes bytes : {Bytes{1} << 63, Bytes{1} << 63, Bytes{8}})
    head.parts.push_back({bytes, {1, bytes, RemoteAccess::read}, {}});
  head.bytes = 8;
  ConstByteSpan rest;
  EXPECT_FALSE(RemoteHead::decode(head.encode(), rest));
  head.parts.erase(head.parts.begin());
  head.bytes = (Bytes{1} << 63) + 8;
  EXPECT_TRUE(RemoteHead::decode(head.encode(), rest));  // large, but a sum
  head.has_payload = true;
  EXPECT_FALSE(RemoteHead::decode(head.encode(), rest));  // it does not follow
}

TEST(RemoteHead, NamesMemoryInWhichItLiesThatMayBeRead) {
  RemoteHead head;
  head.parts.push_back({100, {1, 100, RemoteAccess::read}, {}});
  head.bytes = 100;
  ConstByteSpan rest;
  const auto is_taken = [&](Bytes bytes, Bytes offset, RemoteAccess access = RemoteAccess::read) {
    head.parts[0].region = {1, bytes, access};
    head.parts[0].offset = offset;
    return RemoteHead::decode(head.encode(), rest).has_value();
  };
  constexpr Bytes kMost = ~Bytes{0};
  EXPECT_TRUE(is_taken(100, 0));
  EXPECT_TRUE(is_taken(101, 0));
  EXPECT_TRUE(is_taken(101, 1));
  EXPECT_TRUE(is_taken(kMost, kMost - 100));
  EXPECT_FALSE(is_taken(99, 0));
  EXPECT_FALSE(is_taken(100, 0, RemoteAccess::write));
  EXPECT_FALSE(is_taken(100, 1));
  EXPECT_FALSE(is_taken(kMost, kMost - 99));
  EXPECT_FALSE(is_taken(100, kMost));  // a sum that wraps
  EXPECT_FALSE(is_taken(100, kMost - 99));
}

TEST(RemoteHead, TensorsThatDoNotFitTheirBytesAreRefused) {
  RemoteHead head;
  head.parts.push_back({24, {1, 24, RemoteAccess::read}, test::bytes_tensor(1, 24)});
  head.bytes = 24;
  ConstByteSpan rest;
  ASSERT_TRUE(RemoteHead::decode(head.encode(), rest));
  const auto refuse = [&](auto change) {
    RemoteHead changed = head;
    change(*changed.parts[0].tensor);
    const auto decoded = RemoteHead::decode(changed.encode(), rest);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, Code::peer_misbehaved);
  };
  refuse([](Tensor& tensor) { tensor.shape[0] = 25; });
  refuse([](Tensor& tensor) { tensor.shape[0] = -1; });
  refuse([](Tensor& tensor) { tensor.shape[0] = std::numeric_limits<std::int64_t>::max(); });
  refuse([](Tensor& tensor) { tensor.strides[0] = 2; });
  refuse([](Tensor& tensor) { tensor.strides[0] = -1; });
  refuse([](Tensor& tensor) { tensor.strides[0] = std::numeric_limits<std::int64_t>::max(); });
  refuse([](Tensor& tensor) { tensor.type.bits = 16; });
  refuse([](Tensor& tensor) { tensor.type.lanes = 2; });
}

// ---- with their payload --------------------------------------------------------------------

Message message_of(const std::vector<Segment>& segments) {
  Message message;
  message.set_segments(std::make_unique<std::vector<Segment>>(segments));
  return message;
}

// The size up to which the payload of such a message travels with its head; found by trying.
std::size_t edge_of(std::size_t segments, std::optional<Tensor> tensor, ConstByteSpan memory) {
  std::size_t edge = 0;
  for (std::size_t size = 0; size <= memory.size(); ++size) {
    std::vector<Segment> parts(segments);
    parts.back() = {memory.first(size), tensor};
    if (RemoteHead::travels_with_head(message_of(parts))) edge = size;
  }
  return edge;
}

TEST(RemoteHead, TravelsWithItsPayloadUpToOneMessageOfTheLink) {
  const auto memory = pattern(kMaxControlBytes + 100, 1);
  for (const std::size_t segments : {1u, 2u, 30u})
    for (const bool has_tensor : {false, true}) {
      const auto tensor = has_tensor ? std::optional(test::bytes_tensor(8, 0)) : std::nullopt;
      const std::size_t edge = edge_of(segments, tensor, memory);
      ASSERT_GT(edge, 0u);
      for (const std::size_t beyond : {0u, 1u}) {
        RemoteHead head;
        head.number = 1;
        head.has_payload = true;
        head.parts.resize(segments);
        head.parts.back() = {edge + beyond, {}, tensor};
        head.bytes = edge + beyond;
        const auto words = with_payload(head, ConstByteSpan(memory).first(edge + beyond));
        const auto pieces = cut_for_link(words);
        EXPECT_EQ(pieces.size(), 1 + beyond) << segments;
        EXPECT_EQ(pieces[0].size(), kMaxControlBytes);
        EXPECT_EQ(assemble(pieces), words);
      }
    }
  EXPECT_FALSE(RemoteHead::travels_with_head(
      message_of(std::vector<Segment>(64, {{}, test::bytes_tensor(8, 0)}))));
}

TEST(HeadAssembler, GetsBackWhatWasCutAtEveryBorder) {
  const std::size_t first = kMaxControlBytes - 5;
  const std::size_t next = kMaxControlBytes - 1;
  for (const std::size_t border :
       {std::size_t{1}, first, first + next, first + 2 * next, RemoteHead::kMostBytes})
    for (const std::size_t size : {border - 1, border, border + 1}) {
      if (size == 0 || size > RemoteHead::kMostBytes) continue;
      const auto words = pattern(size, size);
      const auto pieces = cut_for_link(words);
      for (const auto& piece : pieces) {
        EXPECT_GT(piece.size(), 1u) << size;
        EXPECT_LE(piece.size(), kMaxControlBytes) << size;
      }
      EXPECT_EQ(assemble(pieces), words) << size;
    }
}

TEST(HeadAssembler, TakesSmallerPiecesAndOneHeadBehindAnother) {
  const auto words = pattern(10, 1);
  HeadAssembler assembler;
  for (int round = 0; round < 3; ++round) {
    WordWriter first;
    first.number(words.size(), 4);
    first.bytes(ConstByteSpan(words).first(1));
    EXPECT_FALSE(assembler.take(true, first.take()).value());
    for (std::size_t i = 1; i < words.size(); ++i)
      EXPECT_EQ(assembler.take(false, ConstByteSpan(words).subspan(i, 1)).value(), i == 9);
    EXPECT_TRUE(same(assembler.words(), words));
  }
}

void expect_piece_refused(HeadAssembler assembler, bool is_first, ConstByteSpan piece) {
  const auto taken = assembler.take(is_first, piece);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Code::peer_misbehaved);
}

TEST(HeadAssembler, RefusesPiecesThatFitNothing) {
  const auto first_piece = [](std::uint64_t wanted, Bytes bytes) {
    WordWriter out;
    out.number(wanted, 4);
    out.bytes(std::vector<std::byte>(bytes));
    return out.take();
  };
  const HeadAssembler empty;
  expect_piece_refused(empty, false, first_piece(5, 5));  // the rest of nothing
  expect_piece_refused(empty, true, {});
  for (const Bytes size : {1u, 2u, 3u})  // half a size
    expect_piece_refused(empty, true, std::vector<std::byte>(size, std::byte{1}));
  expect_piece_refused(empty, true, first_piece(0, 0));
  expect_piece_refused(empty, true, first_piece(0, 1));
  expect_piece_refused(empty, true, first_piece(5, 0));
  expect_piece_refused(empty, true, first_piece(5, 6));
  expect_piece_refused(empty, true, first_piece(RemoteHead::kMostBytes + 1, 100));
  expect_piece_refused(empty, true, first_piece(0xffff'ffff, 100));
  HeadAssembler begun;
  EXPECT_FALSE(begun.take(true, first_piece(5, 3)).value());
  EXPECT_TRUE(begun.has_begun());
  expect_piece_refused(begun, true, first_piece(5, 3));  // another one between its pieces
  expect_piece_refused(begun, false, {});
  expect_piece_refused(begun, false, std::vector<std::byte>(3));
  EXPECT_TRUE(begun.take(false, std::vector<std::byte>(2)).value());
  EXPECT_FALSE(begun.has_begun());
}

// ---- numbers and errors --------------------------------------------------------------------

TEST(RemoteWords, ErrorsComeBackWithoutControlCharacters) {
  const Error error{Code::build_failed, "so\x1b[31m it\nis", std::string(5000, 'h')};
  const auto words = say_error(RemoteKind::stopped, error);
  WordReader in(words);
  EXPECT_EQ(in.number(1), static_cast<std::uint64_t>(RemoteKind::stopped));
  const Error back = read_error(in);
  EXPECT_TRUE(in.is_over());
  EXPECT_EQ(back.code, Code::build_failed);
  EXPECT_EQ(back.message, "so?[31m it?is");
  EXPECT_EQ(back.hint, std::string(kLongestRemoteText, 'h'));
  for (std::size_t size = 0; size < words.size(); ++size) {
    WordReader cut(ConstByteSpan(words).first(size));
    static_cast<void>(cut.number(1));
    static_cast<void>(read_error(cut));
    EXPECT_FALSE(cut.is_over()) << size;
  }
}

TEST(RemoteWords, NoErrorHasACodeThatThereIsNot) {
  auto words = say_error(RemoteKind::ended, {Code::closed, "m", "h"});
  for (unsigned code = 0; code < 256; ++code) {
    words[1] = static_cast<std::byte>(code);
    WordReader in(ConstByteSpan(words).subspan(1));
    const Error error = read_error(in);
    EXPECT_EQ(in.is_over(), code <= static_cast<unsigned>(Code::build_failed)) << code;
    EXPECT_LE(error.code, Code::build_failed);
  }
}

}  // namespace
}  // namespace gantry
