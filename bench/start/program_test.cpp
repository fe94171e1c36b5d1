// The program as `gantry bench start` starts it: its document, its complaints, what stays behind.

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "../support/program/test_program.hpp"

namespace gantry::bench {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class BenchStart : public RunningBenchTest {
 protected:
  BenchStart() : RunningBenchTest("start") {}
  void SetUp() override {
    RunningBenchTest::SetUp();
    if (is_in_memory(temporary_)) GTEST_SKIP() << "no disk below " << temporary_;
  }
};

double figure_of(const json& document, const std::string& case_name, const std::string& subject,
                 const std::string& metric) {
  for (const json& result : document.at("results"))
    if (result.at("case") == case_name && result.at("subject") == subject &&
        result.at("metric") == metric)
      return result.at("value");
  ADD_FAILURE() << case_name << ": " << subject << " has no " << metric;
  return 0;
}

TEST_F(BenchStart, EveryCaseHasEverySubject) {
  const json document = document_of({"--sizes", "8M", "--disk", "as-is", "--cases", "weights"});
  expect_contract(document, name_);
  EXPECT_FALSE(document.at("machine").contains("pinned_cpus"));
  Names wanted = {"gantry/plain", "gantry/compressed", "gantry/auto", "safetensors-mmap",
                  "read-copy",    "read-copy-2MiB",    "torch-like",  "limit/decode"};
  if (!is_skipped(document, "limit/o-direct in weights/large/8 MiB"))
    wanted.insert("limit/o-direct");
  for (const char* metric : {"latency_p50", "throughput", "cpu_per_gb", "cpu_time", "peak_memory"})
    for (const char* name : {"weights/large/8 MiB", "weights/small/8 MiB"})
      EXPECT_EQ(subjects_by_case(document, metric)[name], wanted) << name << ", " << metric;
}

TEST_F(BenchStart, OnlyWhatHasARowIsMade) {
  const Ended ended =
      run({"--sizes", "8M", "--rounds", "1", "--disk", "as-is", "--subjects", "torch-like"});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, AllOf(HasSubstr("weights/large/8 MiB: making it"),
                                  HasSubstr("weights/small/8 MiB: making it")));
  for (const char* other : {"keep", "estimate", "restore"})
    EXPECT_THAT(ended.errors, Not(HasSubstr(other)));
}

TEST_F(BenchStart, ASubjectIsListedOnce) {
  const std::string listed = run({"--subjects", "pigeon"}).errors;
  for (const std::string name : {"limit/o-direct,", "read-copy,", "gantry/attach,", "reap,"})
    EXPECT_EQ(listed.find(name), listed.rfind(name)) << name;
  EXPECT_THAT(listed, AllOf(HasSubstr(", limit/o-direct, "), HasSubstr(", gantry/estimate")));
}

// Beyond the limit of files' sizes a process is ended by a signal, unless it asks for the error.
TEST_F(BenchStart, ALimitOfFilesIsNamedAndNothingIsLeft) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{Bytes{3} << 20, before.rlim_max};
  for (const char* name : {"weights/large", "restore/hash-index"}) {
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
    const Ended ended = run({"--sizes", "8M", "--rounds", "1", "--cases", name});
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.errors,
                EndsWith("File too large; raise the limit of files' sizes (ulimit -f)\n"));
  }
}

TEST_F(BenchStart, FiguresFitEachOther) {
  const json document = document_of({"--sizes", "8M", "--disk", "as-is", "--subjects",
                                     "gantry/plain,safetensors-mmap", "--cases", "weights/large"});
  constexpr double kBytes = 8 << 20;
  for (const char* subject : {"gantry/plain", "safetensors-mmap"}) {
    const auto figure = [&](const char* metric) {
      return figure_of(document, "weights/large/8 MiB", subject, metric);
    };
    EXPECT_NEAR(figure("throughput"), kBytes / figure("latency_p50"), 1e-6) << subject;
    EXPECT_NEAR(figure("cpu_per_gb"), figure("cpu_time") / kBytes, 1e-6) << subject;
    EXPECT_GE(figure("peak_memory"), kBytes) << subject;
  }
  // It maps the file and has a copy.
  EXPECT_GE(figure_of(document, "weights/large/8 MiB", "safetensors-mmap", "peak_memory"),
            2 * kBytes);
}

TEST_F(BenchStart, AHeldDiskIsACaseOfItsOwnOrHasAReason) {
  const json document = document_of({"--sizes", "8M", "--disk", "1GB/s", "--cases", "weights/small",
                                     "--subjects", "gantry/plain,limit/decode"});
  const std::string name = "weights/small/8 MiB@1GB/s";
  const auto subjects = subjects_by_case(document, "latency_p50");
  if (subjects.empty()) {
    EXPECT_THAT(reason_of(document, name), StartsWith("the disk cannot be held: "));
  } else {
    EXPECT_THAT(subjects.at(name), UnorderedElementsAre("gantry/plain"));  // decoding needs no disk
  }
}

TEST_F(BenchStart, WorkersHaveACopyEach) {
  const json document =
      document_of({"--sizes", "8M", "--cases", "keep", "--subjects", "read-copy"});
  expect_contract(document, name_);
  constexpr double kBytes = 8 << 20;
  const std::map<std::string, double> workers = {{"keep/8 MiB/1 worker", 1},
                                                 {"keep/8 MiB/2 workers", 2},
                                                 {"keep/8 MiB/4 workers", 4},
                                                 {"keep/8 MiB/8 workers", 8}};
  EXPECT_EQ(subjects_by_case(document, "latency_p50").size(), workers.size());
  for (const auto& [name, count] : workers) {
    const auto figure = [&, &name = name](const char* metric) {
      return figure_of(document, name, "read-copy", metric);
    };
    EXPECT_NEAR(figure("throughput"), count * kBytes / figure("latency_p50"), 1e-6) << name;
    EXPECT_LE(figure("usable_time"), figure("latency_p50")) << name;
    EXPECT_GE(figure("peak_memory"), count * kBytes) << name;
    EXPECT_LE(figure("peak_memory"), count * 2 * kBytes) << name;
  }
}

TEST_F(BenchStart, EightWorkersAreEightProcesses) {
  ASSERT_NO_FATAL_FAILURE(
      begin({"--sizes", "8M", "--cases", "keep", "--rounds", "20", "--subjects", "read-copy"},
            "keep/8 MiB/8 workers", 1));
  std::size_t most = 0;
  siginfo_t end{};
  while (end.si_pid == 0) {
    most = std::max(most, children_of(bench_->pid()).size());
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(bench_->pid()), &end, WEXITED | WNOHANG | WNOWAIT),
              0);
  }
  EXPECT_EQ(bench_->wait().status, 0);
  EXPECT_EQ(most, 9U);  // and who looks after the files
}

TEST_F(BenchStart, WorkersShareWhatAKeeperHas) {
  const json document = document_of({"--sizes", "64M", "--cases", "keep", "--subjects", "gantry"});
  expect_contract(document, name_);
  constexpr double kBytes = 64 << 20;
  for (const auto& [name, count] : std::map<std::string, double>{
           {"keep/64 MiB/1 worker", 1}, {"keep/64 MiB/2 workers", 2}, {"keep/64 MiB/8 workers", 8}})
    for (const std::string subject : {"gantry/attach", "gantry/attach-2MiB"}) {
      const std::string reason = reason_of(document, subject + " in " + name);
      if (subject != "gantry/attach" && !reason.empty()) {
        EXPECT_THAT(reason, HasSubstr("huge pages of 2 MiB"));
        EXPECT_THAT(reason, HasSubstr("; sysctl vm.nr_hugepages="));
        continue;
      }
      const auto figure = [&, &name = name](const char* metric) {
        return figure_of(document, name, subject, metric);
      };
      EXPECT_NEAR(figure("throughput"), count * kBytes / figure("latency_p50"), 1e-6) << name;
      EXPECT_GT(figure("usable_time"), 0) << name;
      EXPECT_GE(figure("peak_memory"), kBytes) << name;  // all of it, and once
      EXPECT_LE(figure("peak_memory"), 1.5 * kBytes) << name;
    }
}

TEST_F(BenchStart, EstimatesAreComparedWithWhatLoadsTake) {
  const json document = document_of({"--sizes", "8M", "--cases", "estimate", "--disk", "as-is"});
  expect_contract(document, name_);
  for (const std::string subject : {"gantry/estimate", "limit/load-before", "limit/median-of-all"})
    EXPECT_LE(figure_of(document, "estimate/8 MiB", subject, "within"), 1) << subject;
  EXPECT_GT(figure_of(document, "estimate/8 MiB", "gantry/estimate", "latency_p50"), 0);
}

TEST_F(BenchStart, AFolderInMemoryIsRefused) {
  if (!is_in_memory("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  char folder[] = "/dev/shm/gantry-bench-test-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  std::filesystem::remove(temporary_);
  std::filesystem::create_symlink(folder, temporary_);
  const Ended ended = run({"--sizes", "1M", "--rounds", "1"});
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, HasSubstr("of its pages stay in the page cache; set TMPDIR"));
  std::filesystem::remove(folder);
  std::filesystem::remove(temporary_);
  std::filesystem::create_directory(temporary_);
}

const Words kEndless = {"--sizes", "8M",    "--rounds", "1000",
                        "--disk",  "as-is", "--cases",  "weights/large"};

TEST_F(BenchStart, AStartThatIsKilledEndsTheRunWithItsName) {
  ASSERT_NO_FATAL_FAILURE(begin(kEndless, "weights/large/8 MiB (2/", 1));
  const std::string errors = scratch_.path() + "/errors";
  while (text_of(errors).find(" died: ") == std::string::npos) {
    const auto children = children_of(bench_->pid());  // whoever looks after the files came first
    if (children.size() > 1) ::kill(children.back(), SIGKILL);
  }
  const Ended ended = bench_->wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, HasSubstr(" of weights/large/8 MiB died: signal 9 (Killed)"));
  expect_nobody_left();
}

TEST_F(BenchStart, AByteThatIsNotAsItWasMadeEndsTheRun) {
  Words arguments = kEndless;
  arguments.insert(arguments.end(), {"--subjects", "read-copy"});
  ASSERT_NO_FATAL_FAILURE(begin(arguments, "weights/large/8 MiB (2/", 1));
  const auto folder = *std::filesystem::directory_iterator(temporary_);
  std::fstream file(folder.path() / "weights.safetensors");
  constexpr std::streamoff kWithin = (8 << 20) - 12345;
  file.seekg(kWithin);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(kWithin);
  file.put(byte).flush();
  const Ended ended = bench_->wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, HasSubstr("read-copy of weights/large/8 MiB: tensor 'layers.15.weight' "
                                      "has other bytes than were made\n"));
}

TEST_F(BenchStart, KilledOutrightItLeavesNoFiles) {
  ASSERT_NO_FATAL_FAILURE(begin(kEndless, "weights/large/8 MiB (2/", 1));
  ASSERT_FALSE(std::filesystem::is_empty(temporary_));
  bench_->signal(SIGKILL);
  bench_->wait();
  while (::waitpid(-1, nullptr, 0) > 0) {  // orphans are ours
  }
  EXPECT_TRUE(std::filesystem::is_empty(temporary_));
}

TEST_F(BenchStart, KilledOutrightItLeavesNoKeeper) {
  ASSERT_NO_FATAL_FAILURE(
      begin({"--sizes", "8M", "--rounds", "1000", "--cases", "keep", "--subjects", "gantry/attach"},
            "keep/8 MiB/1 worker (2/", 3));  // it, a worker, the files' guard
  bench_->signal(SIGKILL);
  bench_->wait();
  while (::waitpid(-1, nullptr, 0) > 0) {  // orphans are ours: it returns when none is left
  }
  EXPECT_TRUE(std::filesystem::is_empty(temporary_));
}

}  // namespace
}  // namespace gantry::bench
