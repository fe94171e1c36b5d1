#include <malloc.h>
#include <sys/resource.h>

#include <fstream>
#include <vector>

#include "core/base/os/socket.hpp"
#include "core/base/test_sanitizer.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

// Many channels between two processes, every producer end in one and every consumer end in the
// other: what an end costs its process, and that nothing of it stays.
namespace gantry {
namespace {

using test::Child;
using test::Gate;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

constexpr std::size_t kMostAnEnd = 6;   // descriptors; one of them its slab's
constexpr std::size_t kMostShared = 5;  // the acceptor's three, an event to sleep on, a pidfd
constexpr std::size_t kMostThreads = 8;

/// What this process has.
struct Costs {
  static Costs now() {
    ::malloc_trim(0);
    Costs costs;
    costs.descriptors = test::open_descriptors();
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/task"))
      ++costs.threads;
    std::ifstream("/proc/self/statm") >> costs.pages;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      costs.shared += line.find("memfd:") != std::string::npos;
    return costs;
  }
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t pages = 0;   // mapped
  std::size_t shared = 0;  // mappings that other processes may have, too
};

/// One side: it opens its ends, uses them and closes them, and looks what that costs.
template <class End, class Options>
class Side {
 public:
  explicit Side(Options options, int channels)
      : options_(std::move(options)), channels_(channels) {}

  void open(const std::function<Result<End>(const std::string&, const Options&)>& open) {
    before_ = Costs::now();
    options_.acceptor = *make_acceptor();
    for (int i = 0; i < channels_; ++i) {
      auto end = open("frames" + std::to_string(i), options_);
      if (!end) ADD_FAILURE() << i << ": " << to_string(end.error());
      if (end) ends_.push_back(std::move(*end));
    }
    EXPECT_EQ(ends_.size(), static_cast<std::size_t>(channels_));
  }
  std::vector<End>& ends() { return ends_; }

  void expect_few(const char* who) const {
    const Costs now = Costs::now();
    EXPECT_LE(now.descriptors - before_.descriptors, kMostAnEnd * ends_.size() + kMostShared)
        << who << ": " << now.descriptors - before_.descriptors << " for " << ends_.size();
    EXPECT_LE(now.threads, kMostThreads) << who;
    std::printf("%s: %zu descriptors and %zu pages for %zu ends, %zu threads\n", who,
                now.descriptors - before_.descriptors, now.pages - before_.pages, ends_.size(),
                now.threads);
  }
  /// The memory of the first round is what this process needs for any.
  void close(const char* who, bool is_first) {
    ends_.clear();
    options_.acceptor.reset();
    Costs now = Costs::now();
    for (const Deadline deadline = soon(); !has_settled(now) && !deadline.passed();
         now = Costs::now())
      ::sched_yield();
    EXPECT_EQ(now.descriptors, before_.descriptors) << who;
    EXPECT_EQ(now.threads, before_.threads) << who;
    EXPECT_EQ(now.shared, before_.shared) << who;
    std::printf("%s: %zu pages before, %zu after\n", who, before_.pages, now.pages);
    if (!has_sanitizer() && !is_first) {
      EXPECT_LE(now.pages, before_.pages + static_cast<std::size_t>(channels_)) << who;
    }
  }

 private:
  // A thread that was joined is listed for a moment more.
  [[nodiscard]] bool has_settled(const Costs& now) const {
    return now.descriptors == before_.descriptors && now.threads == before_.threads;
  }
  Options options_;
  int channels_;
  std::vector<End> ends_;
  Costs before_;
};

class ManyChannels : public testing::Test {
 protected:
  static constexpr int kRounds = 3;
  static constexpr Bytes kSizes[] = {60, 5000};  // in the ring, and in a slab

  void SetUp() override {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    if (process_of(self.get()) == 0) GTEST_SKIP() << "a pidfd for each end: this kernel is old";
  }
  static std::uint64_t seed(std::size_t channel, Bytes size) { return channel * 10'000 + size; }

  void produce() {
    Side<Producer, ProducerOptions> side(options_, channels_);
    for (int round = 0; round < kRounds; ++round) {
      side.open(test::make_producer);
      opened_.open();
      child_->await_report();
      for (const Bytes size : kSizes)
        for (std::size_t i = 0; i < side.ends().size(); ++i)
          EXPECT_TRUE(side.ends()[i].send(pattern(size, seed(i, size)), soon())) << i;
      child_->await_report();
      side.expect_few("producers");
      measured_.open();
      child_->await_report();
      side.close("producers", round == 0);
    }
  }
  void consume(const Child& self) {
    Side<Consumer, ConsumerOptions> side(test::consumer_options(options_), channels_);
    for (int round = 0; round < kRounds; ++round) {
      opened_.wait();
      side.open([](const std::string& name, const ConsumerOptions& options) {
        return Consumer::open(name, options, soon());
      });
      self.report();
      for (const Bytes size : kSizes)
        for (std::size_t i = 0; i < side.ends().size(); ++i) {
          const auto message = side.ends()[i].receive(soon());
          EXPECT_TRUE(message && same(message->bytes(), pattern(size, seed(i, size)))) << i;
        }
      side.expect_few("consumers");
      self.report();
      measured_.wait();
      side.close("consumers", round == 0);
      self.report();
    }
  }

  const char* const wish_ = std::getenv("GANTRY_CHANNELS");
  const int channels_ = wish_ != nullptr ? std::atoi(wish_) : 100;
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  Gate opened_, measured_;
  std::unique_ptr<Child> child_;
};

// GANTRY_CHANNELS: how many.
TEST_F(ManyChannels, CostLittleAndLeaveNothing) {
  child_ = std::make_unique<Child>([this](const Child& self) {
    consume(self);
    std::fflush(stdout);
    ::_exit(HasFailure() ? 1 : 0);
  });
  produce();
  EXPECT_EQ(child_->wait(), 0);
}

}  // namespace
}  // namespace gantry
