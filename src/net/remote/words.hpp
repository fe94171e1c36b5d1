#pragma once  // remote/words.hpp: numbers and texts between hosts, little endian.

#include <algorithm>
#include <gantry/types.hpp>
#include <string>
#include <vector>

#include "net/link/record.hpp"

namespace gantry {

class WordWriter {
 public:
  void number(std::uint64_t value, std::size_t bytes = 8) {
    const std::size_t at = out_.size();
    out_.resize(at + bytes);
    store_number(&out_[at], value, bytes);
  }
  void bytes(ConstByteSpan value) { out_.insert(out_.end(), value.begin(), value.end()); }
  /// Cut off behind `most` bytes.
  void text(std::string_view value, std::size_t most) {
    value = value.substr(0, most);
    number(value.size(), 2);
    bytes(std::as_bytes(std::span(value)));
  }
  [[nodiscard]] std::size_t size() const noexcept { return out_.size(); }
  [[nodiscard]] std::vector<std::byte> take() noexcept { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

/// Reads what a stranger wrote. After the first impossible value everything reads as 0, and
/// is_fine() says so.
class WordReader {
 public:
  explicit WordReader(ConstByteSpan bytes) noexcept : rest_(bytes) {}

  std::uint64_t number(std::size_t bytes = 8, std::uint64_t most = ~std::uint64_t{0}) noexcept {
    if (rest_.size() < bytes) return refuse();
    const std::uint64_t value = load_number(rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    return value <= most ? value : refuse();
  }
  void bytes(ByteSpan into) noexcept {
    if (rest_.size() < into.size()) return void(refuse());
    std::ranges::copy(rest_.first(into.size()), into.begin());
    rest_ = rest_.subspan(into.size());
  }
  /// Control characters are replaced: it goes to somebody's terminal.
  [[nodiscard]] std::string text(std::size_t most) {
    const auto size = static_cast<std::size_t>(number(2, most));
    if (size > rest_.size()) refuse();
    std::string value(reinterpret_cast<const char*>(rest_.data()), is_fine_ ? size : 0);
    rest_ = rest_.subspan(is_fine_ ? size : 0);
    std::ranges::replace_if(value, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
    return value;
  }
  [[nodiscard]] ConstByteSpan rest() const noexcept { return rest_; }
  [[nodiscard]] bool is_fine() const noexcept { return is_fine_; }
  [[nodiscard]] bool is_over() const noexcept { return is_fine_ && rest_.empty(); }

 private:
  std::uint64_t refuse() noexcept {
    is_fine_ = false;
    rest_ = {};
    return 0;
  }
  ConstByteSpan rest_;
  bool is_fine_ = true;
};

inline constexpr std::size_t kLongestRemoteText = 1024;
inline constexpr auto kLastErrorCode = static_cast<std::uint64_t>(Code::build_failed);

inline void write_error(WordWriter& out, const Error& error) {
  out.number(static_cast<std::uint64_t>(error.code), 1);
  out.text(error.message, kLongestRemoteText);
  out.text(error.hint, kLongestRemoteText);
}

[[nodiscard]] inline Error read_error(WordReader& in) {
  Error error;
  error.code = static_cast<Code>(in.number(1, kLastErrorCode));
  error.message = in.text(kLongestRemoteText);
  error.hint = in.text(kLongestRemoteText);
  return error;
}

}  // namespace gantry
