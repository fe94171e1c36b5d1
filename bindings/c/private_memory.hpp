#pragma once  // bindings/c/private_memory.hpp: bytes of a message that their holder may write.

#include <gantry/channel.hpp>
#include <utility>

#include "errors.hpp"

namespace gantry::c {

/// A private mapping. Move-only; unmaps.
class PrivateMemory {
 public:
  /// Shorter ones are copied: a mapping costs two calls, and a fault for each page that is used.
  static constexpr Bytes kLeastMapped = Bytes{64} << 10;

  /// The bytes of a segment of `message`: mapped copy-on-write where they lie in shared memory, so
  /// that only pages that are written are copied; else a copy. The message must outlive it.
  [[nodiscard]] static Result<PrivateMemory> of(const Message& message, ConstByteSpan bytes);

  PrivateMemory(PrivateMemory&& other) noexcept
      : mapping_(std::exchange(other.mapping_, {})), data_(std::exchange(other.data_, nullptr)) {}
  PrivateMemory& operator=(PrivateMemory&&) = delete;
  ~PrivateMemory();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  PrivateMemory(ByteSpan mapping, std::byte* data) noexcept : mapping_(mapping), data_(data) {}
  [[nodiscard]] static Result<PrivateMemory> map(Bytes size, int flags, int descriptor,
                                                 Bytes offset);
  ByteSpan mapping_;  // whole pages
  std::byte* data_ = nullptr;
};

}  // namespace gantry::c
