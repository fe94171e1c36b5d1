#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "pipeline_suite.hpp"

// Files as ends of a job.
namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class PipelineFiles : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    folder_ = (std::filesystem::temp_directory_path() / "gantry-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const char* name) const { return folder_ + "/" + name; }
  void write(const std::string& path, const Words& words) const {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(words.data()),
               static_cast<std::streamsize>(words.size() * 4));
  }
  [[nodiscard]] Words read(const std::string& path) const {
    Words words(std::filesystem::file_size(path) / 4);
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(words.data()),
              static_cast<std::streamsize>(words.size() * 4));
    return words;
  }

  std::string folder_;
};

TEST_P(PipelineFiles, AreReadAndWrittenFromAnyOffsetOn) {
  constexpr std::uint64_t kSteps = 10'001;
  const Words x = random_words(kSteps + 5, 1), y = random_words(kSteps, 2);
  write(path("x"), x);
  for (const std::uint64_t chunk : {std::uint64_t{0}, std::uint64_t{777}}) {
    std::filesystem::remove(path("z"));
    PipelineOptions options;
    options.chunk_steps = chunk;
    const auto report = run(job("weigh", kSteps)
                                .input(*PipelineSource::file(path("x"), 20), 4)
                                .input(std::span(y))
                                .output(*PipelineSink::file(path("z"), kSteps * 4, 8), 4)
                                .count(),
                            options);
    EXPECT_EQ(report.plan.staging[0], Staging::ring);
    if (device_->facts().in_place_alignment != 0) {  // the ring is what the device computes on
      EXPECT_EQ(report.plan.device_bytes, 0u);
    }
    const Words z = read(path("z"));
    ASSERT_EQ(z.size(), kSteps + 2);
    for (std::uint64_t i = 0; i < kSteps; ++i) ASSERT_EQ(z[i + 2], x[i + 5] + 3 * y[i]) << i;
  }
}

TEST_P(PipelineFiles, ThatShrinkNameTheChunkThatMissesSomething) {
  constexpr std::uint64_t kSteps = 1000;
  const Words y(kSteps);
  Words z(kSteps);
  write(path("x"), Words(kSteps));
  const PipelineJob shrinking = job("weigh", kSteps)
                                    .input(*PipelineSource::file(path("x")), 4)
                                    .input(std::span(y))
                                    .output(std::span(z))
                                    .count();
  std::filesystem::resize_file(path("x"), 1802);
  PipelineOptions options;
  options.chunk_steps = 100;
  const Error error = error_of(shrinking, options);
  EXPECT_EQ(error.code, Code::system);
  EXPECT_THAT(error.message, AllOf(StartsWith("chunk 4 (steps 400 to 499)"),
                                   HasSubstr("202 of 400"), HasSubstr(path("x"))));
  EXPECT_THAT(error.hint, HasSubstr("cut short"));
}

TEST_P(PipelineFiles, ThatCannotBeUsedAreRefused) {
  EXPECT_EQ(PipelineSource::file(path("none")).error().code, Code::not_found);
  EXPECT_EQ(PipelineSource::file(folder_).error().code, Code::invalid_argument);
  write(path("x"), Words(10));
  EXPECT_EQ(PipelineSource::file(path("x"), 41).error().code, Code::invalid_argument);
  EXPECT_EQ(PipelineSource::file(path("x"), 4, 40).error().code, Code::invalid_argument);
  EXPECT_EQ(PipelineSink::file(path("none") + "/x", 40).error().code, Code::not_found);
  EXPECT_EQ(PipelineSink::file(path("x"), 40, ~std::uint64_t{0} - 8).error().code,
            Code::invalid_argument);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);  // nobody is at its other end
  EXPECT_EQ(PipelineSource::file(path("pipe")).error().code, Code::invalid_argument);
}

// The kernel would end the process.
TEST_P(PipelineFiles, ThatWouldBeLargerThanTheLimitAreRefused) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto sink = PipelineSink::file(path("x"), 4096, 4);
  const auto fits = PipelineSink::file(path("x"), 4092, 4);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(sink);
  EXPECT_THAT(sink.error().message, AllOf(HasSubstr(path("x")), HasSubstr("File too large")));
  EXPECT_THAT(sink.error().hint, HasSubstr("ulimit -f"));
  EXPECT_TRUE(fits);
}

TEST_P(PipelineFiles, AreNotWrittenWhereTheyAreRead) {
  write(path("x"), Words(20));
  const auto over = [&](std::uint64_t offset) {
    return job("twice", 10)
        .input(*PipelineSource::file(path("x"), 0, 40), 4)
        .output(*PipelineSink::file(path("x"), 40, offset), 4)
        .count();
  };
  EXPECT_EQ(error_of(over(4)).code, Code::invalid_argument);
  EXPECT_THAT(error_of(over(4)).message, HasSubstr("overlaps"));
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineFiles, testing::ValuesIn(kDevices), pipeline_device_name);

}  // namespace
}  // namespace gantry
