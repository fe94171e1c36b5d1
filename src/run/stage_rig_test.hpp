#pragma once  // stage_rig_test.hpp: wires up stages as a launcher does, for tests.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <gantry/channel.hpp>
#include <gantry/stage.hpp>
#include <random>

#include "core/base/os/fd.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/result.hpp"

namespace gantry::test {

/// A forked process that runs a function and reports its result. Killed when dropped.
class Child {
 public:
  static constexpr int kKilled = -SIGKILL;

  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(body());
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    kill();
    ::waitpid(pid_, nullptr, 0);
  }

  void kill() const { ::kill(pid_, SIGKILL); }

  /// Its exit status, or the negative signal that ended it; 1000 when it hangs.
  [[nodiscard]] int wait() {
    constexpr int kHangs = 1000;
    const Fd end(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    if (!wait_readable(end.get(), Deadline::after(std::chrono::minutes(2))).value_or(false))
      return kHangs;
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

/// Channel "data" from some senders to some receivers, one link for each pair.
class Rig {
 public:
  Rig(Transport transport, std::size_t senders, std::size_t receivers)
      : transport_(transport), senders_(senders), receivers_(receivers) {
    folder_ = std::filesystem::temp_directory_path() / "gantry-stage-XXXXXX";
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    for (std::size_t i = 0; i < senders * receivers; ++i) add_link();
  }
  ~Rig() { std::filesystem::remove_all(folder_); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  /// What the sender's tensors are to become.
  void convert(std::string as) { as_ = std::move(as); }

  /// Makes the calling process the sender or receiver of that number, and nothing else.
  void become_sender(std::size_t number) { become(true, number); }
  void become_receiver(std::size_t number) { become(false, number); }

  /// Closes the pipes that this process has for the others; otherwise they would never end.
  void close_pipes() {
    for (auto& link : links_) {
      link.read_end.reset();
      link.write_end.reset();
    }
  }

  [[nodiscard]] std::vector<MetricsReport> sent() const { return reports(true); }
  [[nodiscard]] std::vector<MetricsReport> received() const { return reports(false); }

 private:
  struct Link {
    Fd read_end;
    Fd write_end;
    std::optional<Metrics> sending;
    std::optional<Metrics> receiving;
  };

  void add_link() {
    std::array<int, 2> ends{-1, -1};
    if (transport_ == Transport::pipe) {
      EXPECT_EQ(::pipe(ends.data()), 0);
    }
    links_.push_back(
        {Fd(ends[0]), Fd(ends[1]), Metrics::create().value(), Metrics::create().value()});
  }

  [[nodiscard]] std::string address(std::size_t link, bool output) {
    if (transport_ == Transport::gantry) return fmt::format("data.{}", link);
    Fd& end = output ? links_[link].write_end : links_[link].read_end;
    return fmt::to_string(end.release());  // the stage's own from here on
  }

  void become(bool output, std::size_t number) {
    StageEndpoint end{"data", output, transport_, 4, 0, {}, output ? as_ : ""};
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (number != (output ? i / receivers_ : i % receivers_)) continue;
      const Metrics& page = output ? *links_[i].sending : *links_[i].receiving;
      end.links.push_back({address(i, output), ::dup(page.descriptor())});
    }
    close_pipes();
    ::setenv("GANTRY_DIR", folder_.c_str(), 1);
    ::setenv(kStageEndpointsVariable, encode_stage_endpoints(std::span(&end, 1)).c_str(), 1);
  }

  [[nodiscard]] std::vector<MetricsReport> reports(bool output) const {
    std::vector<MetricsReport> reports;
    for (const auto& link : links_)
      reports.push_back((output ? link.sending : link.receiving)->report());
    return reports;
  }

  Transport transport_;
  std::size_t senders_;
  std::size_t receivers_;
  std::string folder_;
  std::string as_;
  std::vector<Link> links_;  // of sender s and receiver r: s * receivers + r
};

/// A test's payload: its size and every byte follow from a seed, so a receiver that knows the seed
/// can check all of it. Sizes are from 1 byte to 4 MiB, small and large ones alike.
class Payload {
 public:
  static constexpr Bytes kLargest = Bytes{4} << 20;

  explicit Payload(std::uint32_t seed) : random_(seed) {
    constexpr std::array<Bytes, 6> kBorders{1, 24, 64, 65, 4096, kLargest};
    if (seed < kBorders.size()) {
      size_ = kBorders[seed];
    } else {
      const auto exponent = std::uniform_real_distribution<>(0, 22)(random_);
      size_ = static_cast<Bytes>(std::exp2(exponent));
    }
  }

  [[nodiscard]] Bytes size() const noexcept { return size_; }

  void fill(ByteSpan bytes) {
    for (auto& byte : bytes) byte = next();
  }
  [[nodiscard]] bool matches(ConstByteSpan bytes) {
    if (bytes.size() != size_) return false;
    for (const auto byte : bytes)
      if (byte != next()) return false;
    return true;
  }

 private:
  std::byte next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::byte>(state_ >> 56);
  }

  std::mt19937 random_;
  Bytes size_ = 0;
  std::uint64_t state_ = random_();
};

/// What children return: a test sees which step went wrong, and a line says why.
namespace verdicts {
enum Verdict : int { kGood = 0, kOpenFailed, kReceiveFailed, kWrongBytes, kSendFailed, kWrongEnd };

inline Verdict report(Verdict verdict, const Error& error) {
  fmt::print(stderr, "child: {} ({})\n", to_string(error), to_string(error.code));
  return verdict;
}
}  // namespace verdicts

}  // namespace gantry::test
