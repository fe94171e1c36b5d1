#pragma once  // bench/support/system/buffer.hpp: memory that is there, and the one way of reading
              // it.

#include <cstdlib>
#include <gantry/types.hpp>
#include <memory>

namespace gantry::bench {

/// Of the machine's pages.
[[nodiscard]] Bytes page_bytes() noexcept;
/// As many pages as `bytes` take, at least one.
[[nodiscard]] Bytes whole_pages(Bytes bytes) noexcept;

/// The 64-bit sum of all words, a shorter last one filled with zeros. Reads every byte once; the
/// one way of reading a payload, the same for all subjects.
[[nodiscard]] std::uint64_t checksum(ConstByteSpan bytes) noexcept;

/// Private memory on page boundaries, every page present.
class Buffer {
 public:
  explicit Buffer(Bytes size);

  [[nodiscard]] ByteSpan bytes() const noexcept { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  Bytes size_;
};

}  // namespace gantry::bench
