// What every benchmark does, whatever it measures: its complaints, its help, its table, its end.

#include <gmock/gmock.h>

#include "test_program.hpp"

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// A command line, and what is to be found in what it says.
struct Call {
  std::string bench;
  Words arguments;
  Words said;
};

void PrintTo(const Call& call, std::ostream* out) {
  *out << call.bench;
  for (const std::string& word : call.arguments) *out << ' ' << word;
}

class Bench : public RunningBenchTest, public ::testing::WithParamInterface<Call> {
 protected:
  Bench() : RunningBenchTest(GetParam().bench) {}

  [[nodiscard]] Ended call() const { return run(GetParam().arguments); }
  [[nodiscard]] bool lacks_disk() const { return name_ == "start" && is_in_memory(temporary_); }
  void expect_one_line(const std::string& errors) const {
    EXPECT_THAT(errors, StartsWith("gantry: bench " + name_ + ": "));
    EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
  }
};

std::vector<Call> of_every_bench(const std::vector<Call>& calls) {
  std::vector<Call> all;
  for (const char* const bench : {"ipc", "link", "memory", "engine", "pipeline", "start"})
    for (const Call& call : calls) all.push_back({bench, call.arguments, call.said});
  return all;
}

// ---- wrong usage ---------------------------------------------------------------------------

class WrongUsage : public Bench {};

TEST_P(WrongUsage, IsOneLineAndStatus2) {
  const Ended ended = call();
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.output, IsEmpty());
  expect_one_line(ended.errors);
  for (const std::string& word : GetParam().said) EXPECT_THAT(ended.errors, HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(OfAll, WrongUsage,
                         ::testing::ValuesIn(of_every_bench({
                             {"", {"--sizes", "64x"}, {"unknown unit", "B, K, M or G"}},
                             {"", {"--sizes", "64,64T"}, {"unknown unit"}},
                             {"", {"--sizes", ""}, {"not a number"}},
                             {"", {"--sizes"}, {"--sizes"}},
                             {"", {"--rounds", "0"}, {"--rounds"}},
                             {"", {"--rounds", "-1"}, {"--rounds"}},
                             {"", {"--rounds", "many"}, {"--rounds"}},
                             {"", {"--peers", "some"}, {"--peers"}},
                             {"", {"--bogus"}, {": --bogus: there is no such option; see gantry"}},
                             {"",
                              {"--ruonds=3", "--sizes", "64"},
                              {": --ruonds: there is no such option; did you mean '--rounds'?"}},
                             {"", {"extra"}, {"extra"}},
                         })));

const std::vector<Call> kWrong = {
    {"ipc", {"--subjects", "pigeon"}, {"no subject 'pigeon'"}},
    {"ipc", {"--cases", "all,odd"}, {"no case 'all'"}},
    {"ipc", {"--peers-path", "/nowhere"}, {"--peers-path: there is no folder '/nowhere'"}},
    {"link", {"--peers-path", "/nowhere"}, {"--peers-path: there is no folder '/nowhere'"}},
    {"link", {"--subjects", "pigeon"}, {"no subject 'pigeon'", "there are: gantry/stream"}},
    {"link", {"--cases", "latency"}, {"there are: round-trip, throughput"}},
    {"link", {"--rates", "10"}, {"'10' is no rate"}},
    {"link", {"--rates", "unlimited,0G"}, {"'0G' is no rate"}},
    {"link", {"--rates", ""}, {"'' is no rate"}},
    {"engine", {"--peers"}, {"--peers: there is no such option"}},
    {"memory", {"--peers"}, {"--peers: there is no such option"}},
    {"memory", {"--threads", "0"}, {"not a number of threads"}},
    {"memory", {"--threads", "1,,2"}, {"not a number of threads"}},
    {"memory", {"--registrar", "scsi"}, {"there are: page-lock"}},
    {"memory", {"--parts", "all,none"}, {"there are: blocks"}},
    {"memory", {"--touch", "much"}, {"--touch"}},
    {"memory", {"--patterns", "zigzag"}, {"there are: fixed"}},
    {"engine", {"--parts", "copy,none"}, {"there are: copy"}},
    {"engine", {"--seconds", "0"}, {"not a number of seconds"}},
    {"engine", {"--seconds", "5s"}, {"not a number of seconds"}},
    {"pipeline", {"--cases", "saxpy,none"}, {"there are: vector-add"}},
    {"pipeline", {"--subjects", "fast"}, {"there are: sequential"}},
    {"pipeline", {"--devices", "tpu"}, {"there are: cpu, opencl, cuda"}},
    {"pipeline", {"--device-memory", "much"}, {"--device-memory: size 'much'"}},
    {"pipeline", {"--trace"}, {"--trace"}},
    {"start", {"--peers"}, {"--peers: there is no such option"}},
    {"start", {"--cases", "heap"}, {"no case 'heap'", "weights/large, weights/small, keep"}},
    {"start", {"--subjects", "pigeon"}, {"no subject 'pigeon'", "there are: gantry/plain"}},
    {"start",
     {"--cases", "weights", "--subjects", "reap"},
     {": --cases weights: it has no subject reap; there are: gantry/plain, "}},
    {"start",
     {"--cases", "restore", "--subjects", "gantry/plain,torch-like"},
     {": --cases restore: it has no subject gantry/plain, nor torch-like; there are: gantry/rest"}},
    {"start",
     {"--cases", "weights,keep", "--subjects", "gantry/plain"},
     {": --cases keep: it has no subject gantry/plain; there are: gantry/attach, "}},
    {"start",
     {"--disk", "1GB/s", "--cases", "weights/small", "--subjects", "limit/decode"},
     {": it has no subject limit/decode on a disk that is held; there are: gantry/plain, "}},
    {"start",
     {"--cases", "restore/guest"},
     {": --cases restore/guest: there is no guest; name a file that has its memory: --guest FILE"}},
    {"start", {"--disk", "2GB/s"}, {"no disk '2GB/s'", "there are: as-is, 1GB/s, 0.5GB/s"}},
};
INSTANTIATE_TEST_SUITE_P(OfOne, WrongUsage, ::testing::ValuesIn(kWrong));

// ---- help, tables --------------------------------------------------------------------------

class Help : public Bench {};

TEST_P(Help, HasAnExample) {
  const Ended ended = call();
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, HasSubstr("Example: gantry bench " + name_));
}

TEST_P(Help, ThatCannotBeWrittenFails) {
  const std::string output = scratch_.path() + "/output";
  std::filesystem::create_symlink("/dev/full", output);
  Program program = start(GetParam().arguments);
  std::filesystem::remove(output);  // it is open by now, and reading from it would never end
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 1);
  expect_one_line(ended.errors);
  EXPECT_THAT(ended.errors, HasSubstr(": standard output: "));
}

INSTANTIATE_TEST_SUITE_P(OfAll, Help, ::testing::ValuesIn(of_every_bench({{"", {"--help"}, {}}})));

class Table : public Bench {};

TEST_P(Table, EndsWithTheRatios) {
  if (lacks_disk()) GTEST_SKIP() << "no disk below " << temporary_;
  const Ended ended = call();
  ASSERT_EQ(ended.status, 0) << ended.errors;
  for (const std::string& word : GetParam().said) EXPECT_THAT(ended.output, HasSubstr(word));
  EXPECT_THAT(ended.output, HasSubstr("ratios of medians"));
}

const std::vector<Call> kTables = {
    {"ipc",
     {"--sizes", "64", "--rounds", "1"},
     // Which of ours was the quickest is not said here: on a busy machine it is any.
     {"cpu-sync", "64 B: time of gantry/", " / limit/cache-line-ping-pong"}},
    {"link",
     {"--loopback", "--sizes", "64", "--rounds", "1"},
     {"network: loopback", "unlimited/round-trip/64 B: gantry/stream / limit/tcp-ping-pong",
      "skipped: 10G: loopback has no rate"}},
    {"memory",
     {"--sizes", "8K", "--rounds", "1", "--threads", "1", "--registrar", "page-lock", "--parts",
      "blocks", "--patterns", "fixed"},
     {"page-lock/fixed/8 KiB", "8 KiB: gantry/pool-eager / malloc-64"}},
    {"engine",
     {"--sizes", "4K", "--rounds", "1", "--parts", "copy"},
     {"copy/rotating/4 KiB", "copy/4 KiB: gantry/copier / memcpy"}},
    {"pipeline",
     {"--sizes", "1M", "--rounds", "1", "--devices", "cpu", "--cases", "dft"},
     {"dft/1 MiB ", "cpu/overlapped-pinned", "dft/1 MiB: cpu/automatic / cpu/sequential"}},
    {"start",
     {"--sizes", "8M", "--rounds", "1", "--disk", "as-is", "--cases", "weights/large"},
     {"weights/large/8 MiB ", "GB/s / gantry/plain", "gantry/plain: 1.00 of the size read",
      "weights/large/8 MiB: gantry/plain / safetensors-mmap"}},
};
INSTANTIATE_TEST_SUITE_P(OfAll, Table, ::testing::ValuesIn(kTables));

// ---- what cannot be measured, and what is not measured to the end ----------------------------

class TooLarge : public Bench {};

TEST_P(TooLarge, IsRefusedAtOnce) {
  const Ended ended = call();
  EXPECT_EQ(ended.status, 1);
  expect_one_line(ended.errors);
  for (const std::string& word : GetParam().said) EXPECT_THAT(ended.errors, HasSubstr(word));
  EXPECT_THAT(ended.errors, HasSubstr("free; choose smaller --sizes"));
}

const std::vector<Call> kTooLarge = {
    {"ipc", {"--sizes", "64,65536G"}, {" needs "}},
    {"link", {"--loopback", "--sizes", "65536G"}, {"link: 65536 GiB: needs "}},
    {"engine", {"--sizes", "65536G"}, {"engine: 65536 GiB: needs "}},
    {"pipeline", {"--sizes", "65536G"}, {"pipeline: 65536 GiB: needs "}},
    {"start", {"--sizes", "65536G"}, {"start: 65536 GiB: needs "}},
};
INSTANTIATE_TEST_SUITE_P(OfAll, TooLarge, ::testing::ValuesIn(kTooLarge));

class Interrupted : public Bench {};

TEST_P(Interrupted, IsStatus130AndLeavesNothing) {
  if (lacks_disk()) GTEST_SKIP() << "no disk below " << temporary_;
  const std::size_t processes = name_ == "memory" ? 7 : name_ == "ipc" || name_ == "link" ? 2 : 0;
  ASSERT_NO_FATAL_FAILURE(begin(GetParam().arguments, GetParam().said.front(), processes));
  for (const int child : children_) ::kill(child, SIGINT);  // a terminal signals all of them
  bench_->signal(SIGINT);
  const Ended ended = bench_->wait();
  EXPECT_EQ(ended.status, 130) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("gantry: bench " + name_ + ": interrupted\n"));
  expect_nobody_left();
}

const std::vector<Call> kEndless = {
    {"ipc", {"--sizes", "64K", "--rounds", "1000"}, {"(1/1000)"}},
    {"link",
     {"--loopback", "--rates", "unlimited", "--sizes", "64K", "--rounds", "1000"},
     {"unlimited/round-trip/64 KiB (1/1000)"}},
    {"memory",
     {"--sizes", "8K", "--rounds", "1000", "--registrar", "page-lock"},
     {"page-lock/fixed/8 KiB (1/"}},
    {"engine", {"--sizes", "4K", "--rounds", "1000", "--parts", "copy"}, {"copy/4 KiB (1/"}},
    {"pipeline",
     {"--sizes", "1M", "--rounds", "1000", "--devices", "cpu"},
     {"vector-add/1 MiB (1/"}},
    {"start",
     {"--sizes", "8M", "--rounds", "1000", "--disk", "as-is", "--cases", "weights/large"},
     {"weights/large/8 MiB (2/"}},  // the first step makes the files
};
INSTANTIATE_TEST_SUITE_P(OfAll, Interrupted, ::testing::ValuesIn(kEndless));

}  // namespace
}  // namespace gantry::bench
