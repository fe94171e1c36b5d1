#pragma once  // fuzz/input.hpp: what a fuzzer made up, taken apart from the front.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

namespace gantry::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) noexcept : rest_(data, size) {}

  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }
  /// Zero behind the end.
  template <class Number>
  [[nodiscard]] Number take() noexcept {
    Number number{};
    const std::size_t size = std::min(sizeof number, rest_.size());
    if (size != 0) std::memcpy(&number, rest_.data(), size);
    rest_ = rest_.subspan(size);
    return number;
  }
  [[nodiscard]] std::span<const std::uint8_t> take_bytes(std::size_t most) noexcept {
    const auto taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  /// Writes over memory at places of its own choice: an offset, a length, bytes; until a zero
  /// length.
  void scribble(std::span<std::byte> over) noexcept {
    while (!empty()) {
      const auto at = take<std::uint16_t>() % over.size();
      const auto bytes = take_bytes(take<std::uint8_t>());
      if (bytes.empty()) return;
      std::memcpy(over.data() + at, bytes.data(), std::min(bytes.size(), over.size() - at));
    }
  }

 private:
  std::span<const std::uint8_t> rest_;
};

/// A property that must hold whatever the input is.
inline void require(bool holds) noexcept {
  if (!holds) std::abort();
}

}  // namespace gantry::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
