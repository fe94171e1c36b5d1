// `gantry keep` and [images] of a pipeline file: whoever attaches an image gets the bytes that were
// packed, whatever becomes of the process that keeps it.
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "process/cli_support.hpp"

namespace gantry::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Keep : public Cli {
 protected:
  Keep() {
    write("a.bin", a_);
    write("b.bin", b_);
    for (const std::string name : {"a", "b"}) {
      const Ended packed = run(here(gantry({"pack", name + ".bin", name + ".gimg"})));
      EXPECT_EQ(packed.status, 0) << packed.errors;
    }
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(files_.file(name), std::ios::binary) << bytes;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(files_.file(name), std::ios::binary).rdbuf();
    return text.str();
  }
  [[nodiscard]] Command here(Command command) const {
    command.cwd = files_.path();
    return command;
  }
  [[nodiscard]] Command keep(const std::vector<std::string>& arguments) const {
    Command command = gantry({"keep"});
    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    return here(std::move(command));
  }
  [[nodiscard]] Command reader(const std::string& name) const {
    Command command = here(gantry({}));
    command.argv = {READ_IMAGE, name};
    return command;
  }
  void expect_read(const std::string& name, const std::string& bytes) const {
    const Ended ended = run(reader(name));
    EXPECT_EQ(ended.status, 0) << ended.errors;
    EXPECT_TRUE(ended.output == bytes);
  }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& text,
                      int status = 1) const {
    const Ended ended = run(keep(arguments));
    EXPECT_EQ(ended.status, status);
    EXPECT_THAT(ended.errors, AllOf(IsOneLine(), HasSubstr(text)));
  }

  ScratchDirectory files_;
  const std::string a_ = random_bytes(6'000'001), b_ = random_bytes(70'000);
};

TEST_F(Keep, WhoComesGetsTheBytesAndIsSeen) {
  Subprocess keeper(keep({"a.gimg", "b.gimg", "--name", "first"}));
  ASSERT_TRUE(keeper.wait_errors("b: kept"));
  expect_read("first", a_);
  expect_read("b", b_);
  Command command = reader("first");
  command.argv.push_back("hold");
  command.keep_input = true;
  Subprocess holder(command);
  ASSERT_TRUE(holder.wait_errors("attached"));
  const Ended second = run(keep({"b.gimg", "--name", "first"}));
  EXPECT_THAT(second.errors, AllOf(ContainsRegex("channel 'first': process [0-9]+ has that name"),
                                   HasSubstr("keep the image under another name (--name), or")));
  const Ended listed = run(gantry({"ls"}));
  EXPECT_THAT(listed.output, ContainsRegex("first +gantry keep \\([0-9]+\\) +1 of 32 .* 5.73 MiB"));
  EXPECT_THAT(listed.output, ContainsRegex("b +gantry keep \\([0-9]+\\) +none "));
  keeper.signal(SIGINT);
  const auto ended = keeper.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 130);
  holder.close_input();
  const auto held = holder.wait();  // it has the image, whose keeper is gone
  ASSERT_TRUE(held);
  EXPECT_EQ(held->status, 0);
  EXPECT_TRUE(held->output == a_ + a_);
  expect_nothing_left();
}

TEST_F(Keep, KilledAtAnyTimeItHarmsNobodyAndComesBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) {
    std::array<Subprocess, 2> readers{Subprocess(reader("a")), Subprocess(reader("a"))};
    Subprocess killed(keep({"a.gimg", "--quiet"}));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));  // any instant
    killed.signal(SIGKILL);
    ASSERT_TRUE(killed.wait());
    Subprocess keeper(keep({"a.gimg", "--quiet"}));
    for (Subprocess& one : readers) {
      const auto ended = one.wait();
      ASSERT_TRUE(ended);
      EXPECT_EQ(ended->status, 0) << ended->errors;
      EXPECT_TRUE(ended->output == a_);
    }
    keeper.signal(SIGTERM);
    ASSERT_TRUE(keeper.wait());
    EXPECT_EQ(run(gantry({"ls"})).status, 0);  // removes what a killed process left
    expect_nothing_left();
  }
}

TEST_F(Keep, KilledReadersAreForgottenAndTheImageGoesForAnother) {
  Subprocess keeper(keep({"a.gimg", "b.gimg", "--budget", "6050000"}));
  ASSERT_TRUE(keeper.wait_errors("a: kept"));
  Command command = reader("a");
  command.argv.push_back("hold");
  command.keep_input = true;
  Subprocess holder(command);
  ASSERT_TRUE(holder.wait_errors("attached"));
  Subprocess other(reader("b"));
  ASSERT_TRUE(keeper.wait_errors("b: not kept now"));
  holder.signal(SIGKILL);
  ASSERT_TRUE(holder.wait());
  const auto ended = other.wait();
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->output == b_);
  ASSERT_TRUE(keeper.wait_errors("a: gone for another"));
  expect_read("a", a_);
  keeper.signal(SIGINT);
  ASSERT_TRUE(keeper.wait());
}

TEST_F(Keep, WhatIsWrongIsSaidInOneLine) {
  expect_refused({"nowhere.gimg"}, "nowhere.gimg: No such file");
  expect_refused({"a.bin"}, "a.bin: it is no image");
  expect_refused({"a.gimg", "--name", "x", "--name", "y"}, "2 names for 1 images");
  expect_refused({"a.gimg", "a.gimg"}, "two images of the name 'a'");
  expect_refused({"a.gimg", "--name", "a/b"}, "a.gimg: ");
  expect_refused({"a.gimg", "--budget", "1M"}, "the budget 1048576");
  expect_refused({"a.gimg", "--budget", "much"}, "--budget", 2);
  fs::rename(files_.file("a.gimg"), files_.file("an image.gimg"));
  expect_refused({"an image.gimg"}, "give it a name with --name");
}

// ---- in a pipeline -----------------------------------------------------------------------------

class KeepInARun : public Keep {
 protected:
  [[nodiscard]] Ended run_file(const std::string& images) const {
    write("p.toml", "[stages.one]\ncommand = [\"" READ_IMAGE
                    "\", \"model\"]\nenvironment = { OUT = \"" +
                        files_.path() + "\" }\n" + images);
    return run(here(gantry({"run", "p.toml", "--quiet"})));
  }
};

TEST_F(KeepInARun, AStageGetsTheImageOfItsFile) {
  const Ended ended =
      run_file("[images.model]\nfile = \"./a.gimg\"\n[images.other]\nfile = \"b.gimg\"\n");
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_TRUE(read("model.bytes") == a_);
  expect_nothing_left();
}

TEST_F(KeepInARun, MistakesAreNamed) {
  const auto expect = [&](const std::string& images, const std::string& text) {
    const Ended ended = run_file(images);
    EXPECT_NE(ended.status, 0);
    EXPECT_THAT(ended.errors, HasSubstr(text));
    EXPECT_FALSE(fs::exists(files_.file("model.bytes")));
    expect_nothing_left();
  };
  expect("[images.model]\nfile = \"c.gimg\"\n", "p.toml:5:8: images.model: c.gimg: No such file");
  expect("[images.model]\n", "write file = ");
  expect("[images.model]\nfile = \"a.gimg\"\nname = \"b\"\n", "name");
  expect("[images.\"a/b\"]\nfile = \"a.gimg\"\n", "is no name for an image");
  expect("[images.other]\nfile = \"b.gimg\"\n",
         "stage image 'model': it is not in the pipeline file");
  expect("", "images here: none");
  std::string bytes = read("a.gimg");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write("bad.gimg", bytes);
  expect("[images.model]\nfile = \"bad.gimg\"\n", "images.model: bad.gimg: chunk");
}

}  // namespace
}  // namespace gantry::test
