#pragma once  // channel/test_support.hpp: a scratch directory and an engine for this module's
              // tests.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <filesystem>
#include <gantry/call.hpp>
#include <gantry/runtime.hpp>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/sizes.hpp"
#include "core/base/test_bytes.hpp"
#include "core/engine/engine_counters.hpp"
#include "core/engine/execute.hpp"
#include "core/engine/fault_guard.hpp"
#include "core/engine/lane_base.hpp"

namespace gantry::test {

/// A waiting call that takes longer than this has hung; nothing is measured by it.
inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(60));
}

class ScratchDirectory {
 public:
  ScratchDirectory() {
    path_ = (std::filesystem::temp_directory_path() / "gantry-test-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  /// A thread that carries on what a dropped end of another host has sent may remove the end's
  /// folder at this moment.
  ~ScratchDirectory() {
    std::error_code gone;
    for (int tries = 0; tries < 1000 && std::filesystem::exists(path_); ++tries)
      std::filesystem::remove_all(path_, gone);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

/// Copies at once, so that channels are tested without any backend.
class PlainEngine : public Engine {
 public:
  std::string_view name() const noexcept override { return "plain"; }
  Capabilities capabilities() const override { return {}; }
  Bytes load() const noexcept override { return 0; }
  Result<std::unique_ptr<Lane>> open_lane(const LaneOptions&) override;
  EngineReport report() const noexcept override { return {}; }
};

class PlainLane : public LaneBase {
 public:
  using Lane::submit;
  Result<Ticket> submit(std::span<const Move> batch, SubmitMode) override {
    for (const Move& move : batch) {
      const Executed executed = execute(move, CacheUse::reader_soon);
      const Completion completion =
          completion_of(executed, CopyEngine::inline_, CacheUse::reader_soon);
      if (move.completion != nullptr) *move.completion = completion;
      progress().retire(completion.outcome);
    }
    return give_tickets(batch.size());
  }
  std::size_t poll() override { return 0; }
  void cancel() noexcept override {}
  Explanation explain(const Move&, SubmitMode) const override { return {}; }

 private:
  bool help(Ticket) override { return false; }
  std::chrono::nanoseconds left(Ticket) const noexcept override { return {}; }
  bool ends_unpolled() const noexcept override { return true; }
};

inline Result<std::unique_ptr<Lane>> PlainEngine::open_lane(const LaneOptions&) {
  if (!install_fault_guard()) return fail_errno("installing the handler of page faults");
  return std::make_unique<PlainLane>();
}

inline ProducerOptions options_in(const ScratchDirectory& directory) {
  ProducerOptions options;
  options.directory = directory.path();
  options.pool.slab_bytes = kMiB;
  options.spin = std::chrono::microseconds(20);
  options.copy_threads = 2;  // on any machine
  options.cell_bytes = 0;    // what is larger than a record's body takes a slot
  return options;
}

// The options of the other ends of a producer with these options: they agree where they can.

inline ConsumerOptions consumer_options(const EndOptions& options) {
  return {options};
}
inline ClientOptions client_options(const ProducerOptions& options) {
  return {options, options};
}
inline ServerOptions server_options(const ProducerOptions& options) {
  return {.channel = {options}, .replies = options};
}

inline Result<Producer> make_producer(std::string_view name, const ProducerOptions& options) {
  return Producer::open(name, options, std::make_shared<PlainEngine>());
}

inline std::vector<std::byte> pattern(Bytes size, std::uint64_t seed) {
  return random_bytes(size, seed);
}

/// Memory with one unreadable page, that of byte `closed`.
class BrokenPayload {
 public:
  BrokenPayload(Bytes size, Bytes closed) : size_(size) {
    void* const at =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    data_ = static_cast<std::byte*>(at);
    EXPECT_EQ(::mprotect(data_ + closed / 4096 * 4096, 4096, PROT_NONE), 0);
  }
  ~BrokenPayload() { ::munmap(data_, size_); }
  BrokenPayload(const BrokenPayload&) = delete;
  BrokenPayload& operator=(const BrokenPayload&) = delete;
  [[nodiscard]] ConstByteSpan bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  Bytes size_;
};

/// The number of open descriptors of this process.
inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

}  // namespace gantry::test
