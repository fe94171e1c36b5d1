#pragma once  // engine_suite.hpp: what the suite's files share: the fixture, the plain reference.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/test_bytes.hpp"
#include "engines.hpp"

namespace gantry {

inline constexpr Bytes kPage = 4096;

using test::random_bytes;

/// Whole pages with an unreadable one before and after.
class GuardedPages {
 public:
  explicit GuardedPages(Bytes pages) : bytes_(pages * kPage) {
    void* at = ::mmap(nullptr, bytes_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    begin_ = static_cast<std::byte*>(at) + kPage;
    EXPECT_EQ(::mprotect(begin_, bytes_, PROT_READ | PROT_WRITE), 0);
  }
  ~GuardedPages() { ::munmap(begin_ - kPage, bytes_ + 2 * kPage); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  [[nodiscard]] ByteSpan bytes() const { return {begin_, bytes_}; }
  [[nodiscard]] ByteSpan page(Bytes index) const { return bytes().subspan(index * kPage, kPage); }
  void protect(Bytes page_index, int protection) const {
    EXPECT_EQ(::mprotect(page(page_index).data(), kPage, protection), 0);
  }

 private:
  Bytes bytes_;
  std::byte* begin_ = nullptr;
};

inline std::uintptr_t address(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at);
}

class EngineConformance : public testing::TestWithParam<EngineCase> {
 protected:
  std::shared_ptr<Engine> engine_ = GetParam().make();
  std::unique_ptr<Lane> lane_ = *engine_->open_lane();

  Completion run(Move move, SubmitMode mode = SubmitMode::synchronous) {
    Completion completion;
    move.completion = &completion;
    const auto ticket = lane_->submit(move, mode);
    EXPECT_TRUE(ticket) << ticket.error().message;
    if (!ticket) return completion;
    EXPECT_EQ(lane_->wait(*ticket), completion.outcome);
    EXPECT_EQ(lane_->outcome(*ticket), completion.outcome);
    return completion;
  }
  void run_well(const Move& move) {
    const Completion completion = run(move);
    EXPECT_EQ(completion.outcome, Outcome::done) << to_string(completion.cause);
    EXPECT_EQ(completion.bytes_done, move.bytes);
    EXPECT_NE(completion.cache, CacheUse::automatic);
  }
};

inline std::string name_of(const testing::TestParamInfo<EngineCase>& info) {
  return info.param.name;
}

}  // namespace gantry
