// What the machine itself allows: nothing that hands data over can be faster.

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <new>

#include "shared_memory.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

// ---- one cache line there and back ----

class PingRequester final : public Requester {
 public:
  explicit PingRequester(Flag& line) : line_(line) {}

  Result<void> send(const Payload& payload) override {
    sum_ = payload.checksum();  // the line carries no payload; its coming back is the proof
    raise(line_, ++turn_);
    return {};
  }
  Result<std::uint64_t> receive() override {
    await(line_, ++turn_);
    return sum_;
  }

 private:
  Flag& line_;
  std::uint64_t sum_ = 0;
  std::uint64_t turn_ = 0;
};

class PingResponder final : public Responder {
 public:
  explicit PingResponder(Flag& line) : line_(line) {}

  Result<std::uint64_t> receive() override {
    await(line_, ++turn_);
    return std::uint64_t{0};
  }
  Result<void> reply(std::uint64_t) override {
    raise(line_, ++turn_);
    return {};
  }

 private:
  Flag& line_;
  std::uint64_t turn_ = 0;
};

class PingPong final : public Subject {
 public:
  explicit PingPong(Mapping memory)
      : memory_(std::move(memory)), line_(*new(memory_.bytes().data()) Flag) {}

  Result<std::unique_ptr<Requester>> open_requester() override {
    return std::make_unique<PingRequester>(line_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    return std::make_unique<PingResponder>(line_);
  }

 private:
  Mapping memory_;
  Flag& line_;
};

Result<std::unique_ptr<Subject>> make_ping_pong(const Case&) {
  auto memory = Mapping::shared(sizeof(Flag));
  if (!memory) return Unexpected(memory.error());
  return std::make_unique<PingPong>(std::move(*memory));
}

// ---- 64 bytes and the word that says that they are there, each line with one writer ----

// Processes that do not trust each other map what the other writes read-only. So the answer has a
// line of its own, and each line has to be called back from who polls it before it can be written:
// in the ping-pong above, whose line both write, the poller's own write does that on the way.
struct alignas(128) TwoLines {
  Flag there;
  alignas(64) std::array<std::uint64_t, 8> words;
  alignas(128) Flag back;
};

class WordsRequester final : public Requester {
 public:
  explicit WordsRequester(TwoLines& lines) : lines_(lines) {}

  Result<void> send(const Payload& payload) override {
    std::memcpy(lines_.words.data(), payload.bytes().data(),
                std::min(payload.bytes().size(), sizeof lines_.words));
    raise(lines_.there, ++turn_);
    sum_ = payload.checksum();
    return {};
  }
  Result<std::uint64_t> receive() override {
    await(lines_.back, turn_);
    return sum_;
  }

 private:
  TwoLines& lines_;
  std::uint64_t sum_ = 0;
  std::uint64_t turn_ = 0;
};

class WordsResponder final : public Responder {
 public:
  explicit WordsResponder(TwoLines& lines) : lines_(lines) {}

  // Both lines are on their way at the same time.
  Result<std::uint64_t> receive() override {
    ++turn_;
    while (lines_.there.number.load(std::memory_order_acquire) != turn_)  // [F]
      __builtin_prefetch(lines_.words.data());
    std::uint64_t sum = 0;
    for (const std::uint64_t word : lines_.words) sum += word;
    asm volatile("" : : "r"(sum));  // read, whoever wants it
    return std::uint64_t{0};
  }
  Result<void> reply(std::uint64_t) override {
    raise(lines_.back, turn_);
    return {};
  }

 private:
  TwoLines& lines_;
  std::uint64_t turn_ = 0;
};

class TwoLinePingPong final : public Subject {
 public:
  explicit TwoLinePingPong(Mapping memory)
      : memory_(std::move(memory)), lines_(*new(memory_.bytes().data()) TwoLines) {}

  Result<std::unique_ptr<Requester>> open_requester() override {
    return std::make_unique<WordsRequester>(lines_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    return std::make_unique<WordsResponder>(lines_);
  }

 private:
  Mapping memory_;
  TwoLines& lines_;
};

Result<std::unique_ptr<Subject>> make_two_lines(const Case&) {
  auto memory = Mapping::shared(sizeof(TwoLines));
  if (!memory) return Unexpected(memory.error());
  return std::make_unique<TwoLinePingPong>(std::move(*memory));
}

// ---- one copy within one process ----

using Copy = void (*)(std::byte* to, const std::byte* from, Bytes size);

void copy_cached(std::byte* to, const std::byte* from, Bytes size) {
  std::memcpy(to, from, size);
  asm volatile("" : : "r"(to) : "memory");  // nobody reads it: the compiler must not know that
}

#if defined(__SSE2__)
/// Stores past the cache. Both on page boundaries.
void copy_streaming(std::byte* to, const std::byte* from, Bytes size) {
  constexpr Bytes kLine = 64;
  const Bytes lines = size / kLine * kLine;
  for (Bytes at = 0; at < lines; at += sizeof(__m128i)) {
    const auto part = _mm_load_si128(reinterpret_cast<const __m128i*>(from + at));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), part);
  }
  _mm_sfence();
  copy_cached(to + lines, from + lines, size - lines);
}

constexpr std::array kCopies = {copy_cached, copy_streaming};
#else
constexpr std::array kCopies = {copy_cached};
#endif

class Copier final : public Requester {
 public:
  explicit Copier(Bytes size) : to_(size) {}

  Result<void> prepare(const Payload& payload) override {
    if (best_ == nullptr) best_ = choose(payload);
    return {};
  }

  Result<void> send(const Payload& payload) override {
    best_(to_.bytes().data(), payload.bytes().data(), payload.bytes().size());
    sum_ = payload.checksum();
    return {};
  }
  Result<std::uint64_t> receive() override { return sum_; }

 private:
  using Clock = std::chrono::steady_clock;

  Copy choose(const Payload& payload) const {
    return *std::min_element(kCopies.begin(), kCopies.end(), [&](Copy a, Copy b) {
      return fastest(a, payload) < fastest(b, payload);
    });
  }

  Clock::duration fastest(Copy copy, const Payload& payload) const {
    constexpr int kTries = 5;
    auto best = Clock::duration::max();
    for (int i = 0; i < kTries; ++i) {
      const auto began = Clock::now();
      copy(to_.bytes().data(), payload.bytes().data(), payload.bytes().size());
      best = std::min(best, Clock::now() - began);
    }
    return best;
  }

  Buffer to_;
  Copy best_ = nullptr;
  std::uint64_t sum_ = 0;
};

class SingleCopy final : public Subject {
 public:
  explicit SingleCopy(Bytes size) : size_(size) {}

  Result<std::unique_ptr<Requester>> open_requester() override {
    return std::make_unique<Copier>(size_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override { return nullptr; }

 private:
  Bytes size_;
};

Result<std::unique_ptr<Subject>> make_single_copy(const Case& size) {
  return std::make_unique<SingleCopy>(size.bytes);
}

}  // namespace

SubjectKind ping_pong() {
  return {.name = kPingPongName, .make = make_ping_pong, .buffers = 1, .carries_bytes = false};
}

SubjectKind two_lines() {
  return {.name = kTwoLinesName, .make = make_two_lines, .buffers = 1, .carries_bytes = false};
}

SubjectKind single_copy() {
  return {.name = "limit/single-copy", .make = make_single_copy, .has_responder = false};
}

}  // namespace gantry::bench
