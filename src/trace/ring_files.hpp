#pragma once  // trace/ring_files.hpp: the ring files of one folder, read while they are written.

#include <functional>
#include <map>

#include "base/fd.hpp"
#include "trace/ring_reader.hpp"

namespace gantry::trace {

/// Process and start, of the name of a ring file.
struct RingOwner {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  friend auto operator<=>(const RingOwner&, const RingOwner&) = default;
};

/// PID-START-NUMBER. Nothing: it is not such a name.
[[nodiscard]] std::optional<RingOwner> owner_of(std::string_view file);

/// Keeps each file open, so that one that is removed is read to its end.
class RingFiles {
 public:
  /// Reads what was written since the last call, of the files of `names` and of earlier ones. Of
  /// another recording than `run`: nothing. See RingReader::take().
  void drain(int folder, const std::vector<std::string>& names, std::uint64_t run, bool is_last,
             std::uint64_t& room);

  /// What is open; drain() has read all that will ever be there.
  void close() noexcept;

  using RingTaker = std::function<void(const RingOwner&, DecodedRing)>;
  using ErrorTaker = std::function<void(const std::string& file, const Error&)>;
  /// Once. Of a file that broke while it was read: both.
  void finish(std::uint64_t run, const TimeScale& time, const RingTaker& ring,
              const ErrorTaker& error);

 private:
  struct File {
    RingOwner owner;
    Fd file;
    std::optional<RingReader> reader;
    std::optional<Error> error;  // final where there is a reader
  };
  [[nodiscard]] static Result<void> open(int folder, const std::string& name, File& file);
  [[nodiscard]] Result<void> read(File& file, bool is_last, std::uint64_t& room);
  [[nodiscard]] Result<ConstByteSpan> copy(const File& file, std::uint64_t first,
                                           std::uint64_t head);

  std::map<std::string, File> files_;
  std::vector<std::byte> copied_;
};

}  // namespace gantry::trace
