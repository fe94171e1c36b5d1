#pragma once  // bench/support/system/posix.hpp: descriptors and system errors as the benchmarks
              // need them.

#include <cerrno>
#include <gantry/types.hpp>
#include <string>
#include <utility>

namespace gantry::bench {

using Unexpected = tl::unexpected<Error>;

/// "what: why", the reason being that of `number`, and what mends it where that is always the same.
[[nodiscard]] Error system_error(std::string_view what, int number = errno);

/// An open descriptor; closes it.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }

  [[nodiscard]] int get() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  /// The number, which is somebody else's to close from now on.
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }
  void reset() noexcept;

 private:
  int number_ = -1;
};

// A descriptor that does not block is tried again and again.
/// Blocks until all of `bytes` has been written. A vanished reader is `peer_gone`.
[[nodiscard]] Result<void> write_all(int descriptor, ConstByteSpan bytes);
/// Blocks until `bytes` is full. An early end is `peer_gone`.
[[nodiscard]] Result<void> read_all(int descriptor, ByteSpan bytes);

/// A folder of our own (mode 0700) under the temporary directory; removed with what is in it.
class ScratchDirectory {
 public:
  [[nodiscard]] static Result<ScratchDirectory> create();
  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  explicit ScratchDirectory(std::string path) noexcept : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace gantry::bench
