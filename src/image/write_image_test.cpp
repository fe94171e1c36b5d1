// A file has its name when it is whole, and is the same each time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/result.hpp"
#include "image/test_image.hpp"

namespace gantry {
namespace {

using namespace test;
using ::testing::HasSubstr;

std::string refused(const Content& content, const std::string& path) {
  const auto packed = content.pack(path);
  return packed ? "packed" : packed.error().message;
}

TEST(WriteImage, TheSameContentGivesTheSameBytes) {
  const Folder folder;
  const Content content = small_content();
  for (const ImageOptions& options : {ImageOptions{}, ImageOptions{Codec::deflate, 0, true},
                                      ImageOptions{std::nullopt, 0, true}}) {
    must(content.pack(folder.file("a.gimg"), options));
    must(content.pack(folder.file("b.gimg"), options));
    EXPECT_EQ(read_file(folder.file("a.gimg")), read_file(folder.file("b.gimg")));
  }
}

TEST(WriteImage, TheDigestIsThatOfTheContent) {
  const Folder folder;
  const auto digest = [&](const Content& content) {
    return must(content.pack(folder.file("a.gimg"))).digest.text();
  };
  const std::string first = digest(small_content());
  EXPECT_EQ(first.size(), 32u);
  Content content = small_content();
  content.data[1][7] ^= std::byte{1};
  EXPECT_NE(digest(content), first);
  content = small_content();
  content.tensors[1].name = "second.weighs";
  EXPECT_NE(digest(content), first);
  content = small_content();
  content.tensors[0].tensor.type = types::f16;
  EXPECT_NE(digest(content), first);
}

TEST(WriteImage, RefusesTensorsThatCannotBe) {
  const Folder folder;
  const auto with = [&](auto change) {
    Content content = small_content();
    change(content.tensors);
    return refused(content, folder.file("a.gimg"));
  };
  const auto named = [&](const std::string& name) {
    return with([&](auto& tensors) { tensors[1].name = name; });
  };
  EXPECT_THAT(named(""), HasSubstr("a.gimg: tensor 1 '': its name '' has 0 bytes, of 1 to 255"));
  EXPECT_THAT(named(std::string(10'000, 'n')), HasSubstr("has 10000 bytes, of 1 to 255"));
  for (const char* name : {"a/b", "a\nb", ".", ".."})
    EXPECT_THAT(named(name), HasSubstr("is no name of a tensor")) << name;
  EXPECT_THAT(named("first"), HasSubstr("tensor 1 'first': another tensor has its name"));
  EXPECT_EQ(named(std::string(255, 'n')), "packed");
  EXPECT_THAT(with([](auto& tensors) { tensors[2].partition = 2; }),
              HasSubstr("partition 2 does not follow: there are 1 so far"));
  EXPECT_THAT(with([](auto& tensors) { tensors[0].partition = 1; }),
              HasSubstr("partition 1 does not follow: there are 0 so far"));
  EXPECT_THAT(with([](auto& tensors) { tensors[0].tensor.dimensions = 9; }),
              HasSubstr("more than 8 dimensions"));
  EXPECT_THAT(with([](auto& tensors) { tensors[0].tensor.shape[0] = -1; }),
              HasSubstr("a negative dimension"));
  EXPECT_THAT(with([](auto& tensors) { tensors[0].tensor.type.bits = 0; }),
              HasSubstr("a type without bits"));
  const auto shaped = [&](std::vector<std::int64_t> shape) {
    return with([&](auto& tensors) { tensors[0] = tensor("large", types::f64, shape); });
  };
  EXPECT_THAT(shaped({std::int64_t{1} << 62, 4}), HasSubstr("more numbers than can be counted"));
  EXPECT_THAT(shaped({std::int64_t{1} << 60}), HasSubstr("more bits than can be counted"));
  EXPECT_THAT(shaped({std::int64_t{1} << 56}), HasSubstr("an image has at most"));
  EXPECT_THAT(with([](auto& tensors) { tensors.clear(); }), HasSubstr("an image of no tensors"));
  EXPECT_EQ(folder.entries(), 1u);  // that of the name with 255 bytes
}

TEST(WriteImage, SmallerFramesHoldTheSame) {
  const Folder folder;
  Content content;
  content.add(tensor("w", types::bf16, {1 << 20}));
  ImageOptions options{Codec::deflate, 0, true};
  const ImageFacts large = must(content.pack(folder.file("large.gimg"), options));
  options.frame_bytes = kLeastFrameBytes;
  const ImageFacts small = must(content.pack(folder.file("small.gimg"), options));
  EXPECT_EQ(small.digest, large.digest);
  EXPECT_NE(small.file_bytes, large.file_bytes);
  Image image = must(Image::open(folder.file("small.gimg")));
  EXPECT_EQ(image.chunks()[0].coding, (Coding{Codec::deflate, 2, kLeastFrameBytes}));
  Data back(content.data[0].size());
  must(image.read(image.tensors()[0], back));
  EXPECT_EQ(back, content.data[0]);
}

TEST(WriteImage, RefusesCodecsThatThereAreNot) {
  const Folder folder;
  EXPECT_EQ(small_content().pack(folder.file("a"), {Codec::deflate, 9, false}).error().message,
            "deflate has levels 1 to 3, not 9");
  EXPECT_EQ(small_content().pack(folder.file("a"), {Codec{7}, 0, false}).error().message,
            "there is no codec 7");
  for (const std::uint32_t frame : {0U, 96U << 10, 1U << 20}) {
    ImageOptions options{Codec::deflate, 0, false};
    options.frame_bytes = frame;
    EXPECT_EQ(small_content().pack(folder.file("a.gimg"), options).error().message,
              fmt::format("frames of {} bytes", frame));
  }
}

TEST(WriteImage, ASourceThatFailsLeavesWhatWasThere) {
  const Folder folder;
  must(small_content().pack(folder.file("a.gimg")));
  const Data before = read_file(folder.file("a.gimg"));
  Content large;
  large.add(tensor("w", types::u8, {9 << 20}));
  const auto packed = write_image(folder.file("a.gimg"), large.tensors, {},
                                  [](std::size_t, Bytes from, ByteSpan) -> Result<void> {
                                    if (from > 0)
                                      return fail(Code::system, "the source's disk is broken");
                                    return {};
                                  });
  EXPECT_EQ(packed.error().message, "the source's disk is broken");
  EXPECT_EQ(read_file(folder.file("a.gimg")), before);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(WriteImage, ReplacesAFileAndKeepsItsModeAndLinks) {
  const Folder folder;
  write_file(folder.file("a.gimg"), Data(10));
  ASSERT_EQ(::chmod(folder.file("a.gimg").c_str(), 0640), 0);
  std::filesystem::create_symlink("a.gimg", folder.file("link.gimg"));
  must(small_content().pack(folder.file("link.gimg")));
  must(must(Image::open(folder.file("a.gimg"))).verify());
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link.gimg")));
  struct stat facts{};
  ASSERT_EQ(::stat(folder.file("a.gimg").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0640u);
  EXPECT_EQ(folder.entries(), 2u);
}

TEST(WriteImage, ReplacesNothingButFiles) {
  const Folder folder;
  ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);
  for (const std::string& path : {folder.file("fifo"), folder.path()})
    EXPECT_THAT(refused(small_content(), path), HasSubstr("something else than a file"));
  EXPECT_EQ(small_content().pack(folder.file("no/a.gimg")).error().code, Code::not_found);
}

TEST(WriteImage, WithoutSpaceItSaysSoAndLeavesNothing) {
  const Folder folder;
  Content large;
  large.add(tensor("w", types::u8, {9 << 20}));
  for (const rlim_t most : {rlim_t{100}, rlim_t{5} << 20, rlim_t{10'000'000}}) {
    const pid_t child = ::fork();
    if (child == 0) {  // the limit is the process's
      const rlimit limit{most, most};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      const auto packed = large.pack(folder.file("a.gimg"));
      const bool is_said =
          !packed && packed.error().message.find("File too large") != std::string::npos;
      ::_exit(most > (9 << 20) + 8192 ? (packed ? 0 : 2) : (is_said ? 0 : 1));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << most;
    EXPECT_EQ(folder.entries(), most > (9 << 20) + 8192 ? 1u : 0u) << most;
  }
}

// At each chunk: the source ends the process as SIGKILL does.
TEST(WriteImage, KilledAnywhereItLeavesNoFile) {
  const Folder folder;
  Content large;
  large.add(tensor("w", types::u8, {9 << 20}));
  for (Bytes at = 0; at < (9 << 20); at += kImageChunkBytes) {
    const pid_t child = ::fork();
    if (child == 0) {
      static_cast<void>(write_image(folder.file("a.gimg"), large.tensors, {},
                                    [at](std::size_t, Bytes from, ByteSpan) -> Result<void> {
                                      if (from == at) ::kill(::getpid(), SIGKILL);
                                      return {};
                                    }));
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_FALSE(std::filesystem::exists(folder.file("a.gimg")));
  }
}

}  // namespace
}  // namespace gantry
