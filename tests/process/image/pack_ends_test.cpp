// How `gantry pack` and `gantry image extract` end before they are done: killed, interrupted, with
// files that change, without room; what extract writes over; and headers too deep to walk.
#include <filesystem>
#include <thread>

#include "pack_support.hpp"

namespace gantry::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

/// A FIFO cannot be packed, so what is slow is the amount.
TEST_F(Pack, KilledAtAnyTimeItLeavesNoFileOrAWholeOne) {
  write("a.bin", random_bytes(24 << 20));
  std::mt19937_64 random(1);
  int killed = 0;
  for (int i = 0; i < 40; ++i) {
    Command command = gantry({"pack", "a.bin", "a.gimg", "--codec", "zstd"});
    command.cwd = files_.path();
    Subprocess packing(command);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 120'000));  // any instant
    packing.signal(SIGKILL);
    const auto ended = packing.wait();
    ASSERT_TRUE(ended);
    killed += ended->signal == SIGKILL ? 1 : 0;
    if (fs::exists(path("a.gimg"))) expect_done({"image", "verify", "a.gimg"});
    fs::remove(path("a.gimg"));
    EXPECT_EQ(files_.entries(), std::vector<std::string>{"a.bin"});
  }
  EXPECT_GT(killed, 0);
}

TEST_F(Pack, InterruptedItCleansUp) {
  write("a.bin", random_bytes(64 << 20));
  Command command = gantry({"pack", "a.bin", "a.gimg", "--codec", "zstd:19"});
  command.cwd = files_.path();
  Subprocess packing(command);
  ASSERT_TRUE(packing.wait_errors("packing: "));
  packing.signal(SIGINT);
  const auto ended = packing.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 130);
  EXPECT_EQ(files_.entries(), std::vector<std::string>{"a.bin"});
}

TEST_F(Pack, AFileThatIsWrittenMeanwhileIsNoticed) {
  write("a.bin", random_bytes(64 << 20));
  Command command = gantry({"pack", "a.bin", "a.gimg", "--codec", "zstd:19"});
  command.cwd = files_.path();
  Subprocess packing(command);
  ASSERT_TRUE(packing.wait_errors("packing: "));
  write("a.bin", random_bytes(64 << 20));
  const auto ended = packing.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 1);
  EXPECT_THAT(ended->errors, HasSubstr("a.bin: it was c"));  // changed, or cut off
  EXPECT_EQ(files_.entries(), std::vector<std::string>{"a.bin"});
}

// ---- extracting: names -------------------------------------------------------------------------

TEST_F(Pack, TheImageIsNotExtractedOverItself) {
  write("a8", random_bytes(100));
  expect_done({"pack", "a8", "a.npy"});
  const std::string image = read("a.npy");
  fs::create_symlink("a.npy", path("link.npy"));
  fs::create_hard_link(path("a.npy"), path("hard.safetensors"));
  fs::create_directory(path("out"));
  fs::create_symlink("../a.npy", path("out/a8"));
  constexpr const char* kSaid =
      ": it is the image that is to be extracted; name another file, or another folder\n";
  for (const std::string to : {"a.npy", "./a.npy", "link.npy", "hard.safetensors", "out"}) {
    const Ended ended = done({"image", "extract", "a.npy", to});
    EXPECT_EQ(ended.status, 1);
    EXPECT_EQ(ended.errors, "gantry: " + to + (to == "out" ? "/a8" : "") + kSaid);
    EXPECT_TRUE(read("a.npy") == image);
  }
  EXPECT_TRUE(fs::is_symlink(path("link.npy")));
  write("b8", random_bytes(10));
  expect_done({"pack", "b8", "a8", "c"});  // the second of it would be the image
  fs::rename(path("c"), path("a8"));
  fs::remove(path("b8"));
  EXPECT_EQ(done({"image", "extract", "a8", "."}).status, 1);
  EXPECT_FALSE(fs::exists(path("b8")));  // nothing is written before
}

TEST_F(Pack, AnyNameComesBackAndAFileIsNoFolder) {
  const std::string name(255, 'n');
  write(name, "bytes");
  expect_done({"pack", name, "a.gimg"});
  for (int i = 0; i < 2; ++i) {  // new, and replaced
    expect_done({"image", "extract", "a.gimg", "out"});
    EXPECT_EQ(read("out/" + name), "bytes");
  }
  write("file", "x");
  EXPECT_EQ(done({"image", "extract", "a.gimg", "file"}).errors,
            "gantry: file: Not a directory; name a folder, or a file *.safetensors or *.npy\n");
}

// ---- extracting: killed, or without room -------------------------------------------------------

class Extract : public Pack {
 protected:
  Extract() {
    write("a.bin", bytes_);
    expect_done({"pack", "a.bin", "a.gimg"});
  }
  /// Under `ulimit WORDS`.
  [[nodiscard]] Ended limited(const std::string& words,
                              const std::vector<std::string>& arguments) const {
    Command command = gantry(arguments);
    command.argv.insert(command.argv.begin(),
                        {"sh", "-c", "ulimit " + words + "; exec \"$0\" \"$@\""});
    command.cwd = files_.path();
    return run(command);
  }
  /// Behind a line that says how far it is.
  static void expect_said(const Ended& ended, const std::string& text) {
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.errors, EndsWith("gantry: " + text + "\n"));
  }

  const std::string bytes_ = random_bytes(24 << 20);
};

TEST_F(Extract, KilledAtAnyTimeItLeavesNoFileOrAWholeOne) {
  std::mt19937_64 random(1);
  int killed = 0;
  for (int i = 0; i < 40; ++i) {
    Command command = gantry({"image", "extract", "a.gimg", "out"});
    command.cwd = files_.path();
    Subprocess extracting(command);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));  // any instant
    extracting.signal(SIGKILL);
    const auto ended = extracting.wait();
    ASSERT_TRUE(ended);
    killed += ended->signal == SIGKILL ? 1 : 0;
    if (!fs::exists(path("out"))) continue;
    for (const auto& entry : fs::directory_iterator(path("out")))
      EXPECT_EQ(entry.path().filename(), "a.bin");
    if (fs::exists(path("out/a.bin"))) {
      EXPECT_TRUE(read("out/a.bin") == bytes_);
    }
    fs::remove_all(path("out"));
  }
  EXPECT_GT(killed, 0);
}

TEST_F(Extract, BeyondTheLimitOfFilesItSaysSoAndLeavesNothing) {
  for (const char* to : {"out", "out.safetensors", "out.npy"}) {
    const bool is_folder = std::string(to) == "out";
    expect_said(limited("-f 10000", {"image", "extract", "a.gimg", to}),
                std::string(to) + (is_folder ? "/a.bin" : "") +
                    ": File too large; raise the limit of files' sizes (ulimit -f)");
  }
  EXPECT_EQ(files_.entries(), (std::vector<std::string>{"a.bin", "a.gimg", "out"}));
  EXPECT_TRUE(fs::is_empty(path("out")));
}

TEST_F(Extract, EachLimitIsNamed) {
  constexpr const char* kWhy = ": Too many open files; raise the limit of open files (ulimit -n)\n";
  bool is_said = false;
  for (int files = 4; files < 40 && !is_said; ++files) {  // whoever started this has some open
    const Ended ended =
        limited("-n " + std::to_string(files), {"image", "extract", "a.gimg", "out.npy"});
    if (ended.status == 0) break;
    EXPECT_FALSE(fs::exists(path("out.npy"))) << files;
    is_said = ended.errors.ends_with(std::string("gantry: out.npy") + kWhy);
  }
  EXPECT_TRUE(is_said);
}

TEST_F(Extract, WithoutMemoryItSaysSo) {
  const auto with = [&](int mib, const std::vector<std::string>& words) {
    return limited("-v " + std::to_string(mib << 10), words);
  };
  constexpr int kMost = 256;
  constexpr int kNotLoaded = 127;  // the dynamic loader's: the program has not begun
  int mib = 1;
  while (mib < kMost && with(mib, {"image", "--help"}).status == kNotLoaded) ++mib;
  while (mib < kMost && with(mib, {"image", "--help"}).status != 0) ++mib;
  if (mib == kMost) GTEST_SKIP() << "it has a shadow memory";
  bool is_said = false;
  for (; mib < kMost; ++mib) {
    const Ended ended = with(mib, {"image", "extract", "a.gimg", "out.npy"});
    if (ended.status == 0) break;
    EXPECT_EQ(ended.status, 1) << mib;
    EXPECT_THAT(ended.errors, AllOf(HasSubstr("; "), Not(HasSubstr("bad_alloc")))) << mib;
    is_said |= ended.errors.ends_with(
        "gantry: out of memory; free memory, or raise the limit of address space (ulimit -v)\n");
  }
  EXPECT_TRUE(is_said);
  EXPECT_TRUE(read("out.npy").ends_with(bytes_));
}

// ---- headers that are deep ---------------------------------------------------------------------

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}
/// A tensor of 16 bytes with that shape.
std::string shaped(const std::string& shape) {
  return R"({"w":{"dtype":"F32","data_offsets":[0,16],"shape":[)" + shape + "]}}";
}

TEST_F(Pack, JsonThatIsDeepIsRefusedBeforeItIsParsed) {
  const auto said = [&](const std::string& header) {
    return said_of("a.safetensors", safetensors_file(header, std::string(16, 'x')));
  };
  for (const std::size_t levels : {std::size_t{65}, std::size_t{200'000}})
    for (const std::string& header :
         {nested(levels), R"({"w":)" + nested(levels) + "}", shaped(nested(levels))})
      EXPECT_THAT(said(header), HasSubstr("a.safetensors: its JSON is more than 64 levels deep"));
  write("model.safetensors.index.json", R"({"weight_map":)" + nested(200'000) + "}");
  EXPECT_THAT(done({"pack", "model.safetensors.index.json", "o.gimg"}).errors,
              HasSubstr("levels deep"));
}

TEST_F(Pack, WhatIsDeepButNotTooDeepIsShownInPart) {
  const auto said = [&](const std::string& header) {
    return said_of("a.safetensors", safetensors_file(header, std::string(16, 'x')));
  };
  EXPECT_THAT(said(shaped(nested(61))), HasSubstr("tensor 'w': '" + std::string(60, '[') + "' is"));
  // Brackets of a text are none.
  EXPECT_THAT(said(shaped('"' + std::string(200, '[') + R"(\"[[[[")")),
              HasSubstr("is no number of elements"));
}

}  // namespace
}  // namespace gantry::test
