#pragma once  // bench/support/system/mapping.hpp: memory from the kernel, given back when dropped.

#include <gantry/types.hpp>
#include <utility>

namespace gantry::bench {

/// Move-only; on page boundaries.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  /// Private memory, its pages present.
  [[nodiscard]] static Result<Mapping> resident(Bytes size);
  /// Private memory, none of whose pages is there.
  [[nodiscard]] static Result<Mapping> untouched(Bytes size);
  /// Zeroed memory that this process and those it forks share; in huge pages where there are any,
  /// as Gantry does with its own.
  [[nodiscard]] static Result<Mapping> shared(Bytes size);
  /// The beginning of a file; what is written goes there.
  [[nodiscard]] static Result<Mapping> of_file(int file, Bytes size);
  /// The same; what is written stays here.
  [[nodiscard]] static Result<Mapping> private_of_file(int file, Bytes size);

  [[nodiscard]] ByteSpan bytes() const noexcept { return bytes_; }

 private:
  [[nodiscard]] static Result<Mapping> create(const char* what, Bytes size, int flags, int file);
  ByteSpan bytes_;
};

}  // namespace gantry::bench
