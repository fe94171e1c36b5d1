#pragma once  // trace/test_traced.hpp: recordings of this process in a directory of their own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/trace/end_trace.hpp"

namespace gantry::trace {

class Traced : public ::testing::Test {
 protected:
  Traced() {
    std::string made = std::filesystem::temp_directory_path() / "gantry-trace-XXXXXX";
    directory_ = ::mkdtemp(made.data());
  }
  ~Traced() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] Recording record(unsigned events = 64) const {
    auto recording = Recording::start({directory_}, {events});
    if (!recording) throw std::runtime_error(recording.error().message);
    return std::move(*recording);
  }
  [[nodiscard]] std::string folder() const { return directory_ + "/" + kFolder; }
  /// The bytes of the only ring there is.
  [[nodiscard]] std::vector<std::byte> ring_bytes() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      if (entry.path().filename() == kControlFile) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(file), {});
      std::vector<std::byte> bytes(text.size());
      std::memcpy(bytes.data(), text.data(), text.size());
      return bytes;
    }
    return {};
  }

  std::string directory_;
};

inline std::uint64_t head_of(const std::vector<std::byte>& bytes) {
  std::uint64_t head = 0;
  std::memcpy(&head, bytes.data() + offsetof(RingHeader, head), sizeof head);
  return head;
}

/// Of the messages of all events, track by track.
inline std::vector<std::uint64_t> numbers_of(const Trace& trace) {
  std::vector<std::uint64_t> numbers;
  for (const Track& track : trace.tracks)
    for (const Event& event : track.events) numbers.push_back(event.message.sequence);
  return numbers;
}

inline TimeScale scale() {
  return {ClockPair::now(), 1};
}

inline void send(EndTrace& end, std::uint64_t sequence) {
  const std::uint64_t now = read_ticks();
  end.sent(now, now, sequence, sequence);
}

}  // namespace gantry::trace
