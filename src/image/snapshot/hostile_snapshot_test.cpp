#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <thread>

#include "core/base/crc32c.hpp"
#include "core/base/test_fork.hpp"
#include "image/load/test_gated_file_io.hpp"
#include "image/snapshot/memory.hpp"
#include "image/snapshot/tables.hpp"
#include "image/snapshot/test_snapshot.hpp"

// Files that may be anything, processes without rights, and children of fork().
namespace gantry {
namespace {

using namespace test;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// The signal that ends a child that does this; 0: none did.
template <class Work>
int signal_of(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

class HostileSnapshots : public Snapshots {
 protected:
  /// Changes a byte of the chunk with this page of what was not touched.
  void spoil(std::uint64_t page) {
    const Bytes offset = offset_of(2, page);
    Data bytes = read_file(path_);
    bytes[offset + 100] ^= std::byte{1};
    write_file(path_, bytes);
  }
  /// The same snapshot with other CRCs, packed in another way. Returns its path.
  [[nodiscard]] std::string pack_again(const std::vector<std::uint32_t>& crcs,
                                       const ImageOptions& options) const {
    Image image = must(Image::open(path_));
    const auto tensors = image.tensors();
    const std::string path = folder_.file("again.gimg");
    must(write_image(path, tensors, options, [&](std::size_t tensor, Bytes from, ByteSpan into) {
      Data all(tensors[tensor].bytes);
      must(image.read(tensors[tensor], all));
      if (tensors[tensor].name == "crcs") std::memcpy(all.data(), crcs.data(), all.size());
      std::memcpy(into.data(), all.data() + from, into.size());
      return Result<void>{};
    }));
    return path;
  }
  void touch(const Snapshot& snapshot, std::uint64_t page) const {
    if (number_at(must(snapshot.region("heap")), page) == 0) std::abort();
  }
};

TEST_F(HostileSnapshots, AChunkThatWasChangedIsSigbusForItsPagesAndAnErrorThatNamesIt) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  save_numbered(3 * kChunkPages);
  spoil(kChunkPages);
  const std::string place =
      fmt::format("{}: chunk 2 (offset {})", path_, offset_of(2, kChunkPages));
  EXPECT_EQ(in_child([&] {
              const Snapshot restored = must(Snapshot::restore(path_, lazily({}, 1)));
              const auto done = restored.wait();
              const ConstByteSpan memory = must(restored.region("heap"));
              if (done || done.error().code != Code::invalid_argument) return 1;
              if (!done.error().message.starts_with(place)) return 2;
              if (restored.error()->message != done.error().message) return 3;
              if (number_at(memory, 3) != 4) return 4;  // what is whole stays
              std::array<int, 2> ends{};
              if (::pipe(ends.data()) != 0) return 5;
              if (::write(ends[1], memory.data() + kChunkPages * kPageBytes, 1) != -1) return 6;
              return 0;
            }),
            0);
  for (const std::uint64_t page : {kChunkPages, 2 * kChunkPages - 1, 3 * kChunkPages - 1}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(signal_of([&] {
                const Snapshot restored = must(Snapshot::restore(path_, lazily({}, 1)));
                if (restored.wait()) return;
                touch(restored, page);
              }),
              SIGBUS);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, testing::StartsWith(fmt::format(
                          "gantry: snapshot: page {} can never be there: {}: ", page, place)));
    EXPECT_THAT(said, HasSubstr("; copy it again from where it came, or "));
    EXPECT_EQ(std::ranges::count(said, '\n'), 1);
  }
}

TEST_F(HostileSnapshots, WhoeverSleepsOnAPageThatNeverComesIsWokenBySigbus) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  save_numbered(3 * kChunkPages);
  EXPECT_EQ(signal_of([&] {  // its time is up while a read never returns
              const auto io = std::make_shared<GatedFileIo>(0);
              RestoreOptions options = lazily(io, 1);
              options.deadline = Deadline::after(30ms);
              const Snapshot restored = must(Snapshot::restore(path_, options));
              touch(restored, 2 * kChunkPages + 5);
            }),
            SIGBUS);
  spoil(2 * kChunkPages);
  EXPECT_EQ(signal_of([&] {
              const auto io = std::make_shared<GatedFileIo>(0);
              const Snapshot restored = must(Snapshot::restore(path_, lazily(io, 1)));
              io->wait_for_asked(1);
              std::jthread later([&] {
                io->wait_for_asked(2);  // the page was touched
                io->allow(2);
              });
              touch(restored, 2 * kChunkPages + 5);
            }),
            SIGBUS);
}

// The chunk is as it was packed: each page is checked by a CRC of its own.
TEST_F(HostileSnapshots, APageOutOfTurnThatIsNotTheOneThatWasSavedIsSigbus) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  save_numbered(3 * kChunkPages);
  Image image = must(Image::open(path_));
  std::vector<std::uint32_t> crcs(3 * kChunkPages);
  must(image.read(*image.find("crcs"), std::as_writable_bytes(std::span(crcs))));
  EXPECT_EQ(crcs[5], crc32c(ConstByteSpan(page_numbered(5))));
  ++crcs[2 * kChunkPages + 5];
  const std::string changed = pack_again(crcs, {});
  for (const std::uint64_t page : {std::uint64_t{5}, std::uint64_t{4}})
    EXPECT_EQ(signal_of([&] {
                const auto io = std::make_shared<GatedFileIo>(0);
                const Snapshot restored = must(Snapshot::restore(changed, lazily(io, 1)));
                io->wait_for_asked(1);
                std::jthread later([&] {
                  io->wait_for_asked(2);
                  io->allow(2);
                  const auto done = restored.wait();
                  if (done || done.error().message.find("a page is not the one that was saved") ==
                                  std::string::npos)
                    ::_exit(1);
                });
                touch(restored, 2 * kChunkPages + page);
                ::_exit(2);
              }),
              SIGBUS)
        << page;
  EXPECT_THAT(Snapshot::restore(changed, {.lazy = Lazy::no}).error().message,
              HasSubstr("chunk 3 (offset"));
}

// save() makes smaller ones.
TEST_F(HostileSnapshots, OfALargeFrameAllPagesComeTogether) {
  save_numbered(2 * kChunkPages);
  std::vector<std::uint32_t> crcs;
  for (std::uint64_t page = 0; page < 2 * kChunkPages; ++page)
    crcs.push_back(crc32c(ConstByteSpan(page_numbered(page))));
  path_ = pack_again(crcs, {Codec::deflate, 0, false});
  const auto io = std::make_shared<GatedFileIo>(10'000);
  io->hold_larger(kPageBytes);
  const auto restored = Snapshot::restore(path_, lazily(io, 1));
  ASSERT_TRUE(restored) << to_string(restored.error());
  const ConstByteSpan memory = must(restored->region("heap"));
  for (std::uint64_t page = 128 + 85; page < 256; ++page)
    EXPECT_EQ(number_at(memory, page), page + 1);
  for (std::uint64_t page = 128; page < 256; ++page) EXPECT_EQ(number_at(memory, page), page + 1);
  EXPECT_EQ(restored->report().out_of_turn, 1u);
  io->hold_larger(~Bytes{0});
  ASSERT_TRUE(restored->wait());
  EXPECT_TRUE(are_numbered(*restored));
}

TEST_F(HostileSnapshots, LoadedFirstABadFileIsAnErrorOfRestore) {
  save_numbered(3 * kChunkPages);
  spoil(0);
  const auto restored = Snapshot::restore(path_, {.lazy = Lazy::no});
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Code::invalid_argument);
  EXPECT_THAT(restored.error().message, HasSubstr("chunk 1 (offset"));
}

TEST_F(HostileSnapshots, AChildOfForkHasNoneOfItsMemoryAndDoesNotHang) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  save_numbered(3 * kChunkPages);
  const auto io = std::make_shared<GatedFileIo>(0);
  auto restored = Snapshot::restore(path_, lazily(io, 1));
  ASSERT_TRUE(restored) << to_string(restored.error());
  const ConstByteSpan memory = must(restored->region("heap"));
  io->wait_for_asked(1);
  EXPECT_EQ(signal_of([&] { static_cast<void>(number_at(memory, 2) == 0 ? ::_exit(1) : void()); }),
            SIGSEGV);
  EXPECT_EQ(in_child([&] {
              const bool is_refused = !restored->wait() && !restored->region("heap") &&
                                      !restored->settled() && !restored->record() &&
                                      !restored->save(path_ + ".child");
              {
                const Snapshot gone = *std::move(restored);
              }
              return is_refused ? 0 : 1;
            }),
            0);
  io->allow(100);
  ASSERT_TRUE(restored->wait());
  EXPECT_TRUE(are_numbered(*restored));
}

// In a child that gives up root's rights, if it has them.
TEST_F(HostileSnapshots, WithoutTheRightItLoadsAllFirstAndSaysHowToMendThat) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  std::ifstream setting("/proc/sys/vm/unprivileged_userfaultfd");
  if (int is_allowed = 0; setting >> is_allowed && is_allowed != 0)
    GTEST_SKIP() << "vm.unprivileged_userfaultfd allows it to everybody";
  save_numbered(2 * kChunkPages);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms{0755});
  std::filesystem::permissions(path_, std::filesystem::perms{0644});
  EXPECT_EQ(in_child([&] {
              if (::getuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 1;
              const auto refused = Snapshot::restore(path_, {.lazy = Lazy::require});
              if (refused || refused.error().code != Code::permission_denied) return 2;
              if (refused.error().hint.find("vm.unprivileged_userfaultfd") == std::string::npos)
                return 3;
              if (Snapshot::restore(path_, {.record = true})) return 4;
              const Snapshot whole = must(Snapshot::restore(path_));
              const RestoreReport report = whole.report();
              if (report.is_lazy || report.why_not_lazy.empty()) return 5;
              if (report.loaded_bytes != report.bytes || !are_numbered(whole)) return 6;
              const Snapshot lazy = must(Snapshot::restore(path_, lazily()));
              return lazy.report().is_lazy && are_numbered(lazy) ? 0 : 7;
            }),
            0);
}

// ---- tables that are packed right and say what cannot be

using snapshot::Index;
using snapshot::Tables;

class HostileTables : public HostileSnapshots {
 protected:
  /// What restore() says of a file with these tables and tensors.
  std::string said(const Tables& tables, const std::vector<ImageTensor>& tensors) {
    must(write_image(path_, tensors, {}, [&](std::size_t tensor, Bytes from, ByteSpan into) {
      std::ranges::fill(into, std::byte{1});
      const auto index = static_cast<Index>(tensor);
      if (index == Index::first || index == Index::rest || tensor >= snapshot::kTensors)
        return Result<void>{};
      const auto bytes = snapshot::bytes_of(tables, index);
      if (from < bytes.size())
        std::memcpy(into.data(), bytes.data() + from, std::min(into.size(), bytes.size() - from));
      return Result<void>{};
    }));
    const auto restored = Snapshot::restore(path_);
    if (restored) return "";
    EXPECT_THAT(restored.error().message, ::testing::StartsWith(path_ + ": "));
    EXPECT_EQ(restored.error().code, Code::invalid_argument);
    return restored.error().message;
  }
  std::string said(const Tables& tables) { return said(tables, snapshot::tensors_of(tables)); }

  const Tables fine_{
      {{"a", 10 * kPageBytes}, {"b", 5}}, {7, 2}, {{{0, 2}}, {{8, 3}}}, {1, 2, 3, 4, 5, 6, 7}};
};

TEST_F(HostileTables, PagesThatDoNotExistOrAreThereTwice) {
  EXPECT_EQ(said(fine_), "");
  Tables bad = fine_;
  bad.touched = {7, 11};
  EXPECT_THAT(said(bad), HasSubstr("snapshot: page 11: there are 11 pages, from 0 on"));
  bad.touched = {7, ~std::uint64_t{0}};
  EXPECT_THAT(said(bad), HasSubstr("there are 11"));
  bad.touched = {7, 7};
  EXPECT_THAT(said(bad), HasSubstr("page 7 is there twice"));
  bad.touched = {7, 9};
  EXPECT_THAT(said(bad), HasSubstr("page 9 is there twice"));  // in a run, too
  bad = fine_;
  bad.runs = {{{8, 3}}, {{0, 2}}};
  EXPECT_THAT(said(bad), HasSubstr("page 0 does not follow"));
  bad.runs = {{{0, 2}}, {{1, 3}}};
  EXPECT_THAT(said(bad), HasSubstr("page 1 does not follow"));
  bad.runs = {{{0, 2}}, {{8, 0}}};
  EXPECT_THAT(said(bad), HasSubstr("0 pages from 8 on"));
  bad.runs = {{{0, 2}}, {{9, 3}}};
  EXPECT_THAT(said(bad), HasSubstr("3 pages from 9 on: there are 11"));
}

TEST_F(HostileTables, SizesThatDoNotAddUp) {
  const auto with = [&](Index index, std::int64_t count) {
    auto tensors = snapshot::tensors_of(fine_);
    tensors[static_cast<std::size_t>(index)].tensor.shape[0] = count;
    return said(fine_, tensors);
  };
  EXPECT_THAT(with(Index::touched, 3), HasSubstr("not as many pages as are touched"));
  EXPECT_THAT(with(Index::first, 1), HasSubstr("not as many pages as are touched"));
  EXPECT_THAT(with(Index::crcs, 6), HasSubstr("not as many CRCs as pages"));
  EXPECT_THAT(with(Index::rest, 6), HasSubstr("not as many CRCs as pages"));
  auto longer = snapshot::tensors_of(fine_);
  longer[static_cast<std::size_t>(Index::rest)].tensor.shape[0] = 6;
  longer[static_cast<std::size_t>(Index::crcs)].tensor.shape[0] = 8;
  EXPECT_THAT(said(fine_, longer), HasSubstr("5 pages are in its runs; it has 6"));
  EXPECT_THAT(with(Index::rest, 1), HasSubstr("more runs of pages than pages"));
  EXPECT_THAT(with(Index::sizes, 1), HasSubstr("more names than sizes"));
  EXPECT_THAT(with(Index::names, 3), HasSubstr("fewer names than sizes"));
  EXPECT_THAT(with(Index::sizes, 65537), HasSubstr("more than 65536 regions"));
  EXPECT_THAT(with(Index::snapshot, 1), HasSubstr("tensor 0 is not what it has to be"));
}

TEST_F(HostileTables, RegionsThatCannotBe) {
  Tables bad = fine_;
  bad.regions[1].name = "a";
  EXPECT_THAT(said(bad), HasSubstr("region 1: another region has its name"));
  bad.regions[1] = {"b", 0};
  EXPECT_THAT(said(bad), HasSubstr("region 1: it has 0 bytes"));
  bad.regions[1] = {"b", ~Bytes{0}};
  EXPECT_THAT(said(bad), HasSubstr("region 1: a snapshot has at most 4 TiB"));
}

TEST_F(HostileTables, TensorsThatAreNotASnapshots) {
  must(small_content().pack(path_));
  EXPECT_EQ(Snapshot::restore(path_).error().message, path_ + ": it is no snapshot");
  const auto changed = [&](auto change) {
    auto tensors = snapshot::tensors_of(fine_);
    change(tensors);
    return said(fine_, tensors);
  };
  EXPECT_THAT(changed([](auto& all) { all.pop_back(); }), HasSubstr("it is no snapshot"));
  EXPECT_THAT(changed([](auto& all) { all[3].name = "touch"; }), HasSubstr("tensor 3 is not"));
  EXPECT_THAT(changed([](auto& all) { all[6].partition = 0, all[7].partition = 1; }),
              HasSubstr("tensor 6 is not"));
  EXPECT_THAT(changed([](auto& all) { all[6].tensor.shape[1] = 4095; }),
              HasSubstr("tensor 6 is not"));
  EXPECT_THAT(changed([](auto& all) { all[4].tensor.dimensions = 0; }),
              HasSubstr("tensor 4 is not"));
  EXPECT_THAT(changed([](auto& all) { all[3].tensor.type = types::f64; }),
              HasSubstr("tensor 3 is not"));
}

}  // namespace
}  // namespace gantry
