#include <gmock/gmock.h>
#include <sys/mount.h>

#include <atomic>
#include <fstream>
#include <functional>

#include "file_ios.hpp"
#include "hung_file.hpp"
#include "pipeline_suite.hpp"
#include "test_file_lane.hpp"

// What run_pipeline() makes of the ways to read and write files.
namespace gantry {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;
using Kind = FileTransfer::Kind;

class PipelineFileIo : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "gantry-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    device_ = *make_cpu_device({.threads = 2});
    program_ = *device_->build(pipeline_source());
    write(path("x"), random_words(kSteps, 1));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const char* name) const { return folder_ + "/" + name; }
  static void write(const std::string& path, const Words& words) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(words.data()),
               static_cast<std::streamsize>(words.size() * 4));
  }
  static Words read(const std::string& path) {
    Words words(std::filesystem::file_size(path) / 4);
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(words.data()),
              static_cast<std::streamsize>(words.size() * 4));
    return words;
  }
  /// 3 * y + x, from one file to another.
  [[nodiscard]] PipelineJob weigh(const std::string& from, const std::string& to) const {
    return PipelineJob(*program_.kernel("weigh"), kSteps)
        .input(*PipelineSource::file(from, 0, kSteps * 4), 4)
        .input(std::span(y_))
        .output(*PipelineSink::file(to, kSteps * 4), 4)
        .count();
  }
  /// weigh() of which each chunk's first part calls `before` with the chunk's number.
  void use_kernel(std::function<Result<void>(int)> before) {
    auto kernels = pipeline_callables();
    kernels["weigh"] = [weigh = kernels["weigh"], before = std::move(before),
                        calls = std::make_shared<std::atomic<int>>(0)](
                           const CpuArguments& with, const CpuSlice& slice) -> Result<void> {
      if (slice.first == 0)
        if (auto may_go_on = before(calls->fetch_add(1)); !may_go_on) return may_go_on;
      return weigh(with, slice);
    };
    program_ = *device_->build(
        {.name = "watched", .opencl = {}, .cuda = {}, .cuda_image = {}, .cpu = std::move(kernels)});
  }
  void expect_weighed(const std::string& to) const {
    const Words x = read(path("x")), z = read(to);
    ASSERT_EQ(z.size(), kSteps);
    for (std::uint64_t i = 0; i < kSteps; ++i) ASSERT_EQ(z[i], x[i] + 3 * y_[i]) << i;
  }
  static PipelineOptions options_by(std::shared_ptr<FileIo> file_io) {
    PipelineOptions options;
    options.chunk_steps = kChunk;
    options.depth = 3;
    options.file_io = std::move(file_io);
    return options;
  }

  static constexpr std::uint64_t kSteps = 100'000, kChunk = 10'000;
  std::string folder_;
  std::shared_ptr<Device> device_;
  Program program_;
  Words y_ = random_words(kSteps, 2);
};

// ---- order ---------------------------------------------------------------------------------

TEST_F(PipelineFileIo, TheNextChunksAreReadBeforeOneIsThere) {
  const auto script = std::make_shared<FileScript>();
  script->hold(Kind::read, 0, 3);
  auto options = options_by(std::make_shared<ScriptedFileIo>(script));
  options.deadline = Deadline::after(60s);
  const auto report = run_pipeline(*device_, weigh(path("x"), path("z")), options);
  ASSERT_TRUE(report) << to_string(report.error());
  expect_weighed(path("z"));
}

TEST_F(PipelineFileIo, AWriteGoesOnWhileTheNextChunksResultsAreTaken) {
  const auto script = std::make_shared<FileScript>();
  script->hold(Kind::write, 0, 2);
  // The third chunk is waited for when the second is on its way: the collector need not wait then.
  use_kernel([script](int call) {
    if (call == 0) script->see_waited_for(Kind::read, 2);
    return Result<void>{};
  });
  auto options = options_by(std::make_shared<ScriptedFileIo>(script));
  options.deadline = Deadline::after(60s);
  const auto report = run_pipeline(*device_, weigh(path("x"), path("z")), options);
  ASSERT_TRUE(report) << to_string(report.error());
  expect_weighed(path("z"));
}

TEST_F(PipelineFileIo, OneSlotIsEnough) {
  auto options = options_by(nullptr);
  options.depth = 1;
  ASSERT_TRUE(run_pipeline(*device_, weigh(path("x"), path("z")), options));
  expect_weighed(path("z"));
}

TEST_F(PipelineFileIo, WhatCannotBeHadIsReplacedUnlessItWasAskedFor) {
  const PipelineJob job = weigh(path("x"), path("z"));
  EXPECT_EQ(
      run_pipeline(*device_, job, options_by(std::make_shared<RefusingFileIo>())).error().code,
      Code::out_of_memory);
  device_->set_file_io(std::make_shared<RefusingFileIo>());
  const auto report = run_pipeline(*device_, job, options_by(nullptr));
  ASSERT_TRUE(report) << to_string(report.error());
  EXPECT_THAT(report->plan.text(),
              HasSubstr("files go by pread() and pwrite(); no memory for a ring"));
  expect_weighed(path("z"));
}

// ---- every way -----------------------------------------------------------------------------

class PipelineFileIoBy : public PipelineFileIo, public testing::WithParamInterface<FileIoCase> {
 protected:
  void SetUp() override {
    auto made = GetParam().make();
    if (!made && made.error().code == Code::unsupported) GTEST_SKIP() << to_string(made.error());
    ASSERT_TRUE(made) << to_string(made.error());
    file_io_ = *std::move(made);
    PipelineFileIo::SetUp();
  }
  [[nodiscard]] Error error_of(const PipelineJob& job, const PipelineOptions& options) const {
    const auto report = run_pipeline(*device_, job, options);
    EXPECT_FALSE(report);
    return report ? Error{} : report.error();
  }
  static std::ptrdiff_t open_files() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  }

  std::shared_ptr<FileIo> file_io_;
};

TEST_P(PipelineFileIoBy, TwoRunsAtOnceAndNoDescriptorIsLeft) {
  const auto before = open_files();
  std::vector<std::thread> threads;
  for (const char* name : {"z1", "z2"})
    threads.emplace_back([&, name] {
      for (int round = 0; round < 5; ++round) {
        const auto report =
            run_pipeline(*device_, weigh(path("x"), path(name)), options_by(file_io_));
        ASSERT_TRUE(report) << to_string(report.error());
        EXPECT_THAT(report->plan.reasons, Contains("files go by " + file_io_->about()));
      }
    });
  for (auto& thread : threads) thread.join();
  expect_weighed(path("z1"));
  expect_weighed(path("z2"));
  EXPECT_EQ(open_files(), before);
}

TEST_P(PipelineFileIoBy, HalosBroadcastsAndTheChosenChunksComeFromFilesToo) {
  static constexpr std::uint32_t kWidth = 16;
  const std::uint64_t rows = kSteps / kWidth;
  for (const Edge edge : {Edge::zero, Edge::clamp, Edge::wrap}) {
    Words in_memory(rows * kWidth), by_file(rows * kWidth);
    const Words x = read(path("x"));
    const auto stencil = [&](PipelineSource from, Words& to) {
      return PipelineJob(*program_.kernel("stencil"), rows)
          .input(std::move(from), kWidth * 4, {2, 1, edge})
          .output(std::span(to), kWidth)
          .count()
          .value(std::uint32_t{kWidth})
          .value(std::uint32_t{2})
          .value(std::uint32_t{1})
          .range([](std::uint64_t count) { return LaunchRange::linear(count * kWidth); });
    };
    ASSERT_TRUE(run_pipeline(
        *device_, stencil(PipelineSource::memory(std::as_bytes(std::span(x))), in_memory)));
    PipelineOptions options;
    options.file_io = file_io_;
    ASSERT_TRUE(
        run_pipeline(*device_, stencil(*PipelineSource::file(path("x")), by_file), options));
    EXPECT_EQ(by_file, in_memory);
  }
}

TEST_P(PipelineFileIoBy, AFaultInTheMiddleLandsWhatCameBefore) {
  use_kernel([](int call) -> Result<void> {
    if (call == 5) return tl::unexpected(Error{Code::system, "the sixth chunk is bad", {}});
    return {};
  });
  const Error error = error_of(weigh(path("x"), path("z")), options_by(file_io_));
  EXPECT_THAT(error.message, StartsWith("chunk 5 (steps 50000 to 59999)"));
  const Words x = read(path("x")), z = read(path("z"));
  for (std::uint64_t i = 0; i < 5 * kChunk; ++i) ASSERT_EQ(z[i], x[i] + 3 * y_[i]) << i;
}

// ---- that does not return ------------------------------------------------------------------

class PipelineHungFile : public PipelineFileIoBy {
 protected:
  void SetUp() override {
    if (!hung_.is_there()) GTEST_SKIP() << "no right to mount a file system of ours";
    PipelineFileIoBy::SetUp();
  }
  [[nodiscard]] PipelineOptions limited() const {
    auto options = options_by(file_io_);
    options.stall_limit = 20ms;
    return options;
  }
  HungFile hung_{kSteps * 4};
};

TEST_P(PipelineHungFile, ThatIsReadEndsTheRunAtItsLimit) {
  const Error error = error_of(weigh(hung_.path(), path("z")), limited());
  EXPECT_EQ(error.code, Code::timed_out);
  EXPECT_THAT(error.message, StartsWith("chunk 0 (steps 0 to 9999)"));
  EXPECT_TRUE(device_->state());  // it cost the device nothing
  ASSERT_TRUE(run_pipeline(*device_, weigh(path("x"), path("z")), options_by(file_io_)));
  expect_weighed(path("z"));
}

TEST_P(PipelineHungFile, ThatIsWrittenEndsTheRunAtItsLimit) {
  const Error error = error_of(weigh(path("x"), hung_.path()), limited());
  EXPECT_EQ(error.code, Code::timed_out);
  EXPECT_THAT(error.message, StartsWith("chunk 0 (steps 0 to 9999)"));
  EXPECT_THAT(error.message, HasSubstr("writing file"));
}

TEST_P(PipelineHungFile, ThatIsBroadcastOrRepeatedAtAnEdgeDoesToo) {
  Words z(kSteps);
  const auto table = PipelineJob(*program_.kernel("total"), kSteps)
                         .broadcast(*PipelineSource::file(hung_.path()))
                         .output(std::span(z));
  EXPECT_EQ(error_of(table, limited()).code, Code::timed_out);
  const auto edge = PipelineJob(*program_.kernel("weigh"), kSteps)
                        .input(*PipelineSource::file(hung_.path()), 4, {1, 1, Edge::clamp})
                        .output(std::span(z));
  EXPECT_EQ(error_of(edge, limited()).code, Code::timed_out);
}

TEST_P(PipelineHungFile, ADeadlineThatHasPassedWaitsForNothing) {
  auto options = options_by(file_io_);
  options.deadline = Deadline::now();
  EXPECT_EQ(error_of(weigh(hung_.path(), path("z")), options).code, Code::timed_out);
}

// ---- full ----------------------------------------------------------------------------------

TEST_P(PipelineHungFile, AFullFileSystemNamesTheChunk) {
  const std::string small = path("small");
  std::filesystem::create_directory(small);
  ASSERT_EQ(::mount("gantry-small", small.c_str(), "tmpfs", 0, "size=256k"), 0);
  const Error error = error_of(weigh(path("x"), small + "/z"), options_by(file_io_));
  ::umount2(small.c_str(), MNT_DETACH);
  EXPECT_EQ(error.code, Code::system);
  EXPECT_THAT(error.message, AllOf(StartsWith("chunk 6 (steps 60000 to 69999)"),
                                   HasSubstr("No space left on device"), HasSubstr(small)));
}

std::string name_of(const testing::TestParamInfo<FileIoCase>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, PipelineFileIoBy, testing::ValuesIn(kFileIos), name_of);
INSTANTIATE_TEST_SUITE_P(All, PipelineHungFile, testing::ValuesIn(kFileIos), name_of);

}  // namespace
}  // namespace gantry
