#include <gantry/image.hpp>

#include <gantry/runtime.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/base/os/fd.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "image/keep/kept_message.hpp"
#include "image/keep/test_kept.hpp"

// What attach_image() and ImageKeeper promise: bytes, who goes for whom, hostile and absent
// keepers.
namespace gantry {
namespace {

using namespace std::chrono_literals;
using test::Content;
using test::content_of;
using test::Data;
using test::KeepThread;
using test::Kept;
using testing::HasSubstr;

/// Device and inode of what is mapped there: "00:01 1234".
std::string memory_of(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t from = 0, to = 0;
    char dash = 0;
    std::string rights, offset, device, inode;
    words >> std::hex >> from >> dash >> to >> rights >> offset >> device >> inode;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at >= from && at < to) return device + ' ' + inode;
  }
  return {};
}

TEST_F(Kept, EveryByteIsThereForEachWhoComesAndLiesInOnePlace) {
  const Content content = content_of(1);
  for (const Codec codec : {Codec::none, Codec::deflate}) {
    KeepThread keeper({file("model", content, {.codec = codec, .planes = true})}, keep_);
    for (int round = 0; round < 3; ++round) {
      const auto image = attach("model");
      ASSERT_TRUE(image) << to_string(image.error());
      expect_all(*image, content);
      EXPECT_EQ(image->digest(), Image::open(folder_.file("model"))->digest());
      EXPECT_EQ(image->partitions().size(), 4u);
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(image->bytes(i)->size(), image->partitions()[i].bytes);
      EXPECT_EQ(image->bytes(4).error().code, Code::invalid_argument);
      EXPECT_EQ(image->tensor("heads").error().code, Code::not_found);
      const auto other = attach("model");  // the same pages, mapped twice
      ASSERT_TRUE(other);
      EXPECT_EQ(memory_of(other->bytes(3)->data()), memory_of(image->bytes(3)->data()));
      const auto listed = list_channels(keep_.directory);
      ASSERT_EQ(listed->front().consumers.size(), 2u);
      for (const ConsumerStatus& one : listed->front().consumers) EXPECT_FALSE(one.holds_up);
    }
  }
}

TEST_F(Kept, ItCannotBeWrittenTo) {
  const KeepThread keeper({file("model", content_of(1))}, keep_);
  const auto image = attach("model");
  ASSERT_TRUE(image);
  auto* const page = const_cast<std::byte*>(image->bytes(3)->data());
  EXPECT_NE(::mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
}

TEST_F(Kept, WhatSomebodyHasStaysWhenItsKeeperGoesAndTheNextTakesTheName) {
  const Content old = content_of(1), fresh = content_of(2);
  std::optional<KeepThread> keeper(std::in_place, std::vector{file("model", old)}, keep_);
  auto image = attach("model");
  ASSERT_TRUE(image);
  const auto tensor = image->tensor("head");
  keeper.reset();
  expect_all(*image, old);
  keeper.emplace(std::vector{file("model", fresh)}, keep_);
  const auto next = attach("model");
  ASSERT_TRUE(next) << to_string(next.error());
  expect_all(*next, fresh);
  expect_all(*image, old);
  image = *next;  // of the first only the tensor is left
  EXPECT_TRUE(test::same(tensor->bytes, old.data[4]));
}

TEST_F(Kept, TheLeastRecentlyAttachedGoesAndNoneInUse) {
  const std::vector<Content> contents{content_of(1), content_of(2), content_of(3)};
  std::vector<KeptFile> files;
  for (std::size_t i = 0; i < 3; ++i) files.push_back(file(std::string(1, "abc"[i]), contents[i]));
  keep_.budget_bytes = Bytes{17} << 20;  // for two of 8 MiB
  KeepThread keeper(files, keep_);
  keeper.there("a");  // in their order
  keeper.there("b");
  auto b = attach("b");
  ASSERT_TRUE(b);
  auto a = attach("a");
  ASSERT_TRUE(a);
  b = a;  // nobody has b any more: it goes first, although it was loaded later
  auto c = attach("c");
  ASSERT_TRUE(c) << to_string(c.error());
  expect_all(*c, contents[2]);
  expect_all(*a, contents[0]);
  keeper.gone("b");
  keeper.there("c");
  std::atomic<bool> has_come{false};
  std::thread waiter([&] {
    const auto again = attach("b");
    has_come = true;
    ASSERT_TRUE(again) << to_string(again.error());
    expect_all(*again, contents[1]);
  });
  EXPECT_THAT(keeper.trouble("b").trouble, HasSubstr("in use"));
  EXPECT_FALSE(has_come);
  expect_all(*a, contents[0]);
  expect_all(*c, contents[2]);
  a = c;  // nobody has a any more
  b = c;
  waiter.join();
  keeper.gone("a");
  EXPECT_TRUE(keeper.there("b").trouble.empty());
  expect_all(*c, contents[2]);
}

TEST_F(Kept, OfThoseThatNobodyHasTheOneThatWasAttachedLastStays) {
  std::vector<KeptFile> files;
  for (unsigned i = 0; i < 3; ++i) files.push_back(file(std::string(1, "abc"[i]), content_of(i)));
  keep_.budget_bytes = Bytes{17} << 20;
  KeepThread keeper(files, keep_);
  keeper.there("b");
  std::vector<AttachedImage> in_use{*attach("b")};
  expect_all(in_use.front(), content_of(1));  // some milliseconds
  in_use.push_back(*attach("a"));
  in_use.push_back(in_use.front());
  const Fd enough(::eventfd(0, EFD_CLOEXEC));
  std::thread asks([&] {
    ConsumerOptions ends = ends_;
    ends.interrupt_descriptor = enough.get();
    EXPECT_EQ(attach_image("c", ends).error().code, Code::interrupted);
  });
  keeper.trouble("c");  // it has seen both
  ASSERT_EQ(::eventfd_write(enough.get(), 1), 0);
  asks.join();
  while (has_readers("c")) std::this_thread::yield();
  in_use.clear();
  while (has_readers()) std::this_thread::yield();
  expect_all(*attach("c"), content_of(2));
  keeper.gone("b");
}

TEST_F(Kept, WhatCannotBeKeptIsRefused) {
  const KeptFile model = file("model", content_of(1));
  const auto code = [&](const std::vector<KeptFile>& files) {
    const auto keeper = ImageKeeper::open(files, keep_);
    return keeper ? Code::system : keeper.error().code;
  };
  EXPECT_EQ(code({}), Code::invalid_argument);
  EXPECT_EQ(code({model, model}), Code::invalid_argument);
  EXPECT_EQ(code({{"no/name", model.path}}), Code::invalid_argument);
  EXPECT_EQ(code({{"model", folder_.file("nowhere")}}), Code::not_found);
  Content many;
  for (unsigned i = 0; i < 64; ++i)
    many.add(test::tensor("t" + std::to_string(i), types::u8, {1}, i));
  EXPECT_EQ(code({file("many", many)}), Code::too_large);
  many.tensors.pop_back();
  const KeepThread most({file("most", many)}, keep_);
  expect_all(*attach("most"), many);
  const KeepThread keeper({model}, keep_);
  EXPECT_EQ(code({model}), Code::already_exists);
  keep_.budget_bytes = Bytes{8} << 20;
  EXPECT_EQ(code({{"large", model.path}}), Code::too_large);
}

// ---- keepers that are none -------------------------------------------------------------------

class Hostile : public Kept {
 protected:
  /// Sends one message in the place of a keeper's and attaches it. Its last part begins `off`
  /// bytes behind a multiple of 256.
  Result<AttachedImage> attach_to(ConstByteSpan tables, const std::vector<ConstByteSpan>& parts,
                                  std::uint32_t type = image::kKeptImage, std::uintptr_t off = 0) {
    ProducerOptions how;
    how.directory = channels_.path();
    how.history = 1;
    auto producer = Producer::open("model", how, *make_inline_engine());
    EXPECT_TRUE(producer) << to_string(producer.error());
    Draft draft;
    draft.copy(tables);
    std::vector<Block> others;
    for (const ConstByteSpan part : parts) {
      Block block;
      do {
        others.push_back(std::move(block));
        block = must(producer->pool().allocate(part.size(), {.alignment = 64}));
      } while (reinterpret_cast<std::uintptr_t>(block.bytes().data()) % 256 !=
               (part.data() == parts.back().data() ? off : 0));
      std::ranges::copy(part, block.bytes().begin());
      draft.move(std::move(block), part.size());
    }
    EXPECT_TRUE(producer->send(std::move(draft), {.type = type}));
    return attach("model");
  }
};

TEST_F(Hostile, AChannelOfAnotherKindIsNoImage) {
  const Data bytes(5000);
  const auto image = attach_to(bytes, {}, 7);
  EXPECT_EQ(image.error().code, Code::invalid_argument);
  EXPECT_THAT(to_string(image.error()), HasSubstr("keeps no image"));
}

TEST_F(Hostile, AStreamThatHasEndedIsNoImage) {
  ProducerOptions how;
  how.directory = channels_.path();
  auto producer = Producer::open("model", how, *make_inline_engine());
  ASSERT_TRUE(producer);
  std::thread ends([&] { static_cast<void>(producer->close()); });
  EXPECT_THAT(to_string(attach("model").error()), HasSubstr("keeps no image"));
  ends.join();
}

TEST_F(Hostile, TablesAndPartsThatDoNotFitAreRefused) {
  const Content content = test::small_content();
  ASSERT_TRUE(content.pack(folder_.file("i")));
  auto image = *Image::open(folder_.file("i"));
  std::vector<Data> parts;
  for (std::size_t i = 0; i < 2; ++i) {
    parts.emplace_back(image.partitions()[i].bytes);
    ASSERT_TRUE(image.read(i, 0, parts[i]));
  }
  const Data tables = image::write_kept(image);
  const ConstByteSpan first = parts[0], second = parts[1];
  expect_all(*attach_to(tables, {first, second}), content);
  const auto is_refused = [&](ConstByteSpan given, const std::vector<ConstByteSpan>& those) {
    const auto attached = attach_to(given, those);
    return !attached && attached.error().code == Code::peer_misbehaved;
  };
  const auto expect_refusal = [](const Result<AttachedImage>& attached, std::string_view words) {
    ASSERT_FALSE(attached);
    EXPECT_EQ(attached.error().code, Code::peer_misbehaved);
    EXPECT_THAT(attached.error().message, HasSubstr(words));
  };
  expect_refusal(attach_to(tables, {first, second}, image::kKeptImage, 64),
                 "partition 1 begins at no border");
  expect_refusal(attach_to(tables, {first}), "partition 1 has");
  expect_refusal(attach_to(tables, {first, second, second}), "4 parts came, 3 are its own");
  expect_refusal(attach_to(tables, {first.first(first.size() - 1), second}), "partition 0 has");
  expect_refusal(attach_to(tables, {first, first}), "partition 1 has");
  expect_refusal(attach_to({}, {first, second}), "0 bytes of tables");
  for (const Bytes bytes : {Bytes{4095}, Bytes{4096}, tables.size() - 1})
    expect_refusal(attach_to(ConstByteSpan(tables).first(bytes), {first, second}),
                   fmt::format("{} bytes of tables", bytes));
  Data longer = tables;
  longer.resize(tables.size() + 1);
  expect_refusal(attach_to(longer, {first, second}),
                 fmt::format("{} bytes of tables", longer.size()));
  for (Bytes at = 0; at < tables.size(); at += at < 80 || at >= 4096 ? 1 : 64) {  // zeros between
    Data changed = tables;
    changed[at] ^= std::byte{4};
    EXPECT_TRUE(is_refused(changed, {first, second})) << at;
    test::seal(changed);  // what is behind the CRCs is looked at
    const auto attached = attach_to(changed, {first, second});
    if (!attached) continue;
    for (const ImageTensor& one : attached->tensors()) {
      const auto loaded = attached->tensor(one.name);
      ASSERT_TRUE(loaded);
      EXPECT_EQ(loaded->bytes.size(), *dense_bytes(one.tensor));
      const ConstByteSpan place = *attached->bytes(one.partition);
      EXPECT_LE(static_cast<Bytes>(loaded->bytes.data() - place.data()) + loaded->bytes.size(),
                place.size());
    }
  }
}

}  // namespace
}  // namespace gantry
